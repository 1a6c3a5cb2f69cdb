"""Where a random crop is taken from an image."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

# B images per device, A attempts

_ATTEMPTS = 10  # as torchvision's RandomResizedCrop
DRAWS = 2 * _ATTEMPTS + 2
"""Random numbers that a box takes."""


class Boxes(NamedTuple):
    """Crops in whole pixels, inside their images.

    Attributes:
        tops, lefts, heights, widths: [B], int64.
    """

    tops: Tensor
    lefts: Tensor
    heights: Tensor
    widths: Tensor

    def of(self, rows: Tensor) -> Boxes:
        """The boxes of some images."""
        return Boxes(*(sides[rows] for sides in self))


def random_boxes(draws: Tensor, *, height: int, width: int, scale: list[float], ratio: list[float]) -> Boxes:
    """Boxes of random area, shape and place, one an image, distributed as torchvision's RandomResizedCrop.

    The area is uniform, the ratio of width to height log-uniform; of ten attempts the first that fits is taken, else
    the largest central box whose ratio is allowed.

    Args:
        draws: [B, DRAWS], in [0, 1).
        height: of every image, in pixels.
        width: of every image, in pixels.
        scale: [low, high], area as a share of the image's.
        ratio: [low, high], width / height.
    """
    areas = height * width * (scale[0] + (scale[1] - scale[0]) * draws[:, :_ATTEMPTS])  # [B, A]
    low, high = math.log(ratio[0]), math.log(ratio[1])
    ratios = torch.exp(low + (high - low) * draws[:, _ATTEMPTS : 2 * _ATTEMPTS])  # [B, A]
    widths = torch.round(torch.sqrt(areas * ratios)).long()
    heights = torch.round(torch.sqrt(areas / ratios)).long()
    fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
    first = fits.int().argmax(dim=1, keepdim=True)  # [B, 1]
    any_fits = fits.any(dim=1)  # [B]
    full_height, full_width = _largest_box(height, width, ratio)
    heights = torch.where(any_fits, heights.gather(1, first)[:, 0], full_height)  # [B]
    widths = torch.where(any_fits, widths.gather(1, first)[:, 0], full_width)
    tops = torch.where(any_fits, _place(draws[:, -2], height - heights), (height - full_height) // 2)
    lefts = torch.where(any_fits, _place(draws[:, -1], width - widths), (width - full_width) // 2)
    return Boxes(tops, lefts, heights, widths)


def _place(draws: Tensor, room: Tensor) -> Tensor:
    """[B], int64, uniform over 0 to room, both included."""
    return torch.minimum((draws * (room + 1)).long(), room)  # rounding of the product may reach room + 1


def _largest_box(height: int, width: int, ratio: list[float]) -> tuple[int, int]:
    if width < ratio[0] * height:
        return round(width / ratio[0]), width
    if width > ratio[1] * height:
        return height, round(height * ratio[1])
    return height, width
