"""Crops of images that were decoded at a fraction of their size, which JPEG allows at a fraction of the time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from spt.views.resample import Interpolation

# S pixels of the crop

_REDUCTIONS = (8, 4, 2)  # of a JPEG's blocks of 8 x 8
_FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


class Box(NamedTuple):
    """A crop in whole pixels, inside its image."""

    top: int
    left: int
    height: int
    width: int


def largest_reduction(boxes: Sequence[Box], sizes: Sequence[int], pixel_ratio: float) -> int:
    """How many times smaller an image may be decoded: 8, 4, 2, or 1 where a crop needs all its pixels.

    Args:
        boxes: the image's crops, in its own pixels.
        sizes: S of each.
        pixel_ratio: decoded pixels a pixel of a crop, along both sides, that the neediest must keep.
    """
    room = min(min(box.height, box.width) / size for box, size in zip(boxes, sizes, strict=True))
    return next((reduction for reduction in _REDUCTIONS if room >= pixel_ratio * reduction), 1)


def crop_reduced(image: Image.Image, box: Box, reduction: int, size: int, interpolation: Interpolation) -> Tensor:
    """The crop of an image that was decoded `reduction` times smaller: [3, S, S], uint8.

    The box keeps its place to the fraction of a pixel. What lies outside it is seen only by the filter's share of the
    pixels that its edges cut.

    Args:
        image: reduced, in three channels.
        box: in pixels of the whole image.
        reduction: pixels of the whole image a pixel.
        size: S.
        interpolation: bicubic or bilinear.
    """
    left, top = box.left / reduction, box.top / reduction
    right, bottom = (box.left + box.width) / reduction, (box.top + box.height) / reduction
    first, above = math.floor(left), math.floor(top)
    whole_pixels = image.crop((first, above, math.ceil(right), math.ceil(bottom)))
    inside = (left - first, top - above, right - first, bottom - above)
    resized = whole_pixels.resize((size, size), _FILTERS[interpolation], box=inside)
    return torch.from_numpy(np.array(resized)).permute(2, 0, 1)  # [3, S, S]
