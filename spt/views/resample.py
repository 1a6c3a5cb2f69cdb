"""Antialiased resizing of a batch in which every image has a crop box of its own."""

from __future__ import annotations

import math
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
    starts: Tensor,
    lengths: Tensor,
    *,
    in_size: int,
    out_size: int,
    interpolation: Interpolation,
    mirrored: Tensor | None = None,
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
        mirrored: [B], bool: whose output is in reverse order; none when absent.

    Returns:
        [B, out_size, in_size], float32; every row sums to 1.
    """
    device = starts.device
    radius = 2 if interpolation == "bicubic" else 1
    # only what the filter reaches is computed, one pixel more for rounding: T taps an output pixel
    num_taps = min(in_size, math.ceil(2 * radius * max(1, in_size / out_size)) + 1)
    places = torch.arange(out_size, dtype=torch.float32, device=device)  # [S]; the default type may be a half one
    if mirrored is not None:
        places = torch.where(mirrored[:, None], out_size - 1 - places, places)  # [B, S]
    # said aloud: under bf16-true a quotient of integers would be bfloat16
    starts, lengths = starts.float()[:, None], lengths.float()[:, None]  # [B, 1]
    scales = lengths / out_size  # [B, 1], input pixels an output pixel
    widening = scales.clamp(min=1)
    centers = (places + 0.5) * scales  # [B, S], counted from the stretch's start
    firsts = (centers - 0.5 - radius * widening).floor_().add_(starts).clamp_(0, in_size - num_taps)  # [B, S], pixels
    taps = torch.arange(num_taps, device=device)[:, None, None]
    middles = (firsts - starts + 0.5) + taps  # [T, B, S], of the pixels, counted from the stretch's start
    distances = (middles - centers).abs_().div_(widening)
    weights = _bicubic(distances) if interpolation == "bicubic" else (1 - distances).clamp_(min=0)
    weights *= (middles > 0) & (middles < lengths)
    weights /= weights.sum(dim=0)
    pixels = (firsts.long() + taps).permute(1, 2, 0)  # [B, S, T]
    return weights.new_zeros(len(starts), out_size, in_size).scatter_(2, pixels, weights.permute(1, 2, 0))


def _bicubic(distances: Tensor) -> Tensor:
    distances = distances.clamp(max=2)  # where the filter has come down to zero
    near = (1.5 * distances).sub_(2.5).mul_(distances).mul_(distances).add_(1)
    far = (-0.5 * distances).add_(2.5).mul_(distances).sub_(4).mul_(distances).add_(2)
    return torch.where(distances < 1, near, far)


def crop_and_resize(
    images: Tensor, boxes: Boxes, size: int, interpolation: Interpolation, mirrored: Tensor | None = None
) -> Tensor:
    """Every image's own box, resized to a square.

    Args:
        images: [B, C, H, W], uint8, or float32 in [0, 1].
        boxes: one an image.
        size: pixels of the result's sides.
        interpolation: bicubic or bilinear.
        mirrored: [B], bool: whose left and right change places; none when absent.

    Returns:
        [B, C, size, size], float32 in [0, 1]: bicubic overshoot is cut off.
    """
    height, width = images.shape[-2:]
    # the weights of both axes at once; of the shorter one, the last are for pixels that it does not have
    weights = resize_weights(
        torch.cat((boxes.tops, boxes.lefts)),
        torch.cat((boxes.heights, boxes.widths)),
        in_size=max(height, width),
        out_size=size,
        interpolation=interpolation,
        mirrored=None if mirrored is None else torch.cat((torch.zeros_like(mirrored), mirrored)),
    )
    rows, columns = weights.chunk(2)  # [B, S, H or W]
    if images.dtype == torch.uint8:
        images, rows = images.float(), rows / 255  # fewer weights than pixels
    return apply_separable(images, rows[..., :height], columns[..., :width]).clamp_(0, 1)  # [B, C, S, S]


def resize_bytes(image: Tensor, height: int, width: int, interpolation: Interpolation) -> Tensor:
    """One whole image resized, antialiased, on the CPU: [3, H, W], uint8, to [3, height, width], uint8."""
    resized = F.interpolate(image[None], size=(height, width), mode=interpolation, antialias=True, align_corners=False)
    return resized[0]
