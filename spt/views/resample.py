"""Antialiased resizing of a batch in which every image has a crop box of its own."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from spt.views.boxes import Boxes

# B images per device, H, W pixels of the image, S pixels of the crop

Interpolation: TypeAlias = Literal["bicubic", "bilinear"]


def apply_separable(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Images with a linear map applied down their columns, then one along their rows.

    Args:
        images: [B, C, H, W], float32.
        rows: [B or 1, S, H].
        columns: [B or 1, T, W].

    Returns:
        [B, C, S, T].
    """
    halfway = rows[:, None] @ images  # [B, C, S, W]
    # all rows of an image in one product: its columns need not be repeated for every channel
    return (halfway.flatten(1, 2) @ columns.transpose(-1, -2)).unflatten(1, halfway.shape[1:3])


def resize_weights(
    starts: Tensor, lengths: Tensor, *, in_size: int, out_size: int, interpolation: Interpolation
) -> Tensor:
    """What each output pixel takes from each input pixel when a stretch of the input is resized.

    The filter widens with the scale when it shrinks, and sees nothing outside the stretch: what PIL's `crop` then
    `resize` and torchvision's antialiased resize do. Bicubic is Keys' filter with a = -0.5, as theirs.

    Args:
        starts: [B], first input pixel of the stretch.
        lengths: [B], input pixels in it.
        in_size: pixels of the input.
        out_size: pixels of the output.
        interpolation: bicubic or bilinear.

    Returns:
        [B, out_size, in_size], float32; every row sums to 1.
    """
    device = starts.device
    # said aloud: under bf16-true a quotient of integers would be bfloat16
    scales = (lengths.float() / out_size)[:, None, None]  # [B, 1, 1], input pixels an output pixel
    centers = (torch.arange(out_size, device=device)[:, None] + 0.5) * scales  # [B, S, 1]
    pixels = torch.arange(in_size, device=device) - starts[:, None]  # [B, H], counted from the stretch's start
    distances = (pixels[:, None] + 0.5 - centers).abs_().div_(scales.clamp(min=1))  # [B, S, H]
    weights = _bicubic(distances) if interpolation == "bicubic" else (1 - distances).clamp_(min=0)
    inside = (pixels >= 0) & (pixels < lengths[:, None])  # [B, H]
    weights.mul_(inside[:, None])
    return weights.div_(weights.sum(dim=-1, keepdim=True))


def _bicubic(distances: Tensor) -> Tensor:
    distances = distances.clamp(max=2)  # where the filter has come down to zero
    near = (1.5 * distances).sub_(2.5).mul_(distances).mul_(distances).add_(1)
    far = (-0.5 * distances).add_(2.5).mul_(distances).sub_(4).mul_(distances).add_(2)
    return torch.where(distances < 1, near, far)


def crop_and_resize(images: Tensor, boxes: Boxes, size: int, interpolation: Interpolation) -> Tensor:
    """Every image's own box, resized to a square.

    Args:
        images: [B, C, H, W], float32 in [0, 1].
        boxes: one an image.
        size: pixels of the result's sides.
        interpolation: bicubic or bilinear.

    Returns:
        [B, C, size, size], float32 in [0, 1]: bicubic overshoot is cut off.
    """
    height, width = images.shape[-2:]
    rows = resize_weights(boxes.tops, boxes.heights, in_size=height, out_size=size, interpolation=interpolation)
    columns = resize_weights(boxes.lefts, boxes.widths, in_size=width, out_size=size, interpolation=interpolation)
    return apply_separable(images, rows, columns).clamp(0, 1)  # [B, C, S, S]


def resize_bytes(image: Tensor, height: int, width: int, interpolation: Interpolation) -> Tensor:
    """One whole image resized, antialiased, on the CPU: [3, H, W], uint8, to [3, height, width], uint8."""
    resized = F.interpolate(image[None], size=(height, width), mode=interpolation, antialias=True, align_corners=False)
    return resized[0]
