"""Changes of colour, a batch at a time, with strengths of their own for every image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

# B images per device, H, W pixels

BrightnessMode: TypeAlias = Literal["multiplicative", "additive"]
Rows: TypeAlias = "Tensor | slice"
_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as PIL


class Jitter(NamedTuple):
    """How one batch is jittered. Identity: brightness 1 (or 0 when additive), contrast 1, saturation 1, hue 0.

    Attributes:
        brightness: [B], factor of every channel, or what is added to it.
        contrast: [B], factor of the distance to the image's mean grey.
        saturation: [B], factor of the distance to the pixel's grey.
        hue: [B], turns of the colour circle.
        order: [B, 3], a permutation of (0 brightness, 1 contrast, 2 saturation).
        hue_place: [B], 0 to 3: how many of the other three come before hue.
    """

    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    order: Tensor
    hue_place: Tensor

    def of(self, rows: Rows) -> Jitter:
        """How some rows of the batch are jittered."""
        return Jitter(*(values[rows] for values in self))


def grayscale(images: Tensor) -> Tensor:
    """[B, 3, H, W] to brightness as the eye weighs it, [B, 1, H, W]."""
    red, green, blue = images.split(1, dim=1)
    return (_LUMA[0] * red).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])


def jitter(images: Tensor, how: Jitter, brightness_mode: BrightnessMode) -> Tensor:
    """Images after brightness, contrast, saturation and hue, each image in its own order, cut to [0, 1] after each.

    Args:
        images: [B, 3, H, W], in [0, 1].
        how: strengths and orders.
        brightness_mode: multiplicative or additive.
    """
    images = images.clone()  # each operation writes into it

    def blend(place: int, is_due: Tensor) -> Tensor:
        return change_some(images, is_due, lambda some, rows: _blend(some, how.of(rows), place, brightness_mode))

    # hue is dear: once for all images, with the cheap three before it or after it as each image's order asks
    for place in range(3):
        images = blend(place, how.hue_place > place)
    images = rotate_hue(images, how.hue)
    for place in range(3):
        images = blend(place, how.hue_place <= place)
    return images


def change_some(images: Tensor, is_on: Tensor, change: Callable[[Tensor, Rows], Tensor]) -> Tensor:
    """Images with a change to some of them, each for itself; `images` themselves may be changed.

    Args:
        images: [B, C, H, W].
        is_on: [B], bool.
        change: images and which rows of the batch they are, to changed images.

    A CPU computes those that change; elsewhere all are computed, for the device would have to be waited for.
    """
    if images.device.type == "cpu":
        rows = is_on.nonzero()[:, 0]
        return images.index_copy_(0, rows, change(images.index_select(0, rows), rows))
    return torch.where(_column(is_on), change(images, slice(None)), images)


def _blend(images: Tensor, how: Jitter, place: int, brightness_mode: BrightnessMode) -> Tensor:
    """The operation at one place of each image's order: all three blend with a reference."""
    operation = how.order[:, place]  # [B]
    brightness = how.brightness if brightness_mode == "multiplicative" else torch.ones_like(how.brightness)
    factors = torch.where(operation == 0, brightness, torch.where(operation == 1, how.contrast, how.saturation))
    gray = grayscale(images)  # [B, 1, H, W]
    offsets = torch.where(operation == 1, 1 - factors, 0.0) * gray.mean(dim=(1, 2, 3))  # [B]
    if brightness_mode == "additive":
        offsets = offsets + torch.where(operation == 0, how.brightness, 0.0)
    shares = torch.where(operation == 2, 1 - factors, 0.0)  # [B], of the pixel's grey
    shifts = gray.mul_(_column(shares)).add_(_column(offsets))  # [B, 1, H, W]
    return torch.addcmul(shifts, images, _column(factors)).clamp_(0, 1)


def rotate_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Images [B, 3, H, W] in [0, 1] with colours moved round the HSV circle by `turns` [B]; greys do not change."""
    red, green, blue = images.unbind(dim=1)  # [B, H, W]
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    divisor = chroma.clamp(min=1e-12)  # a grey has no hue, and shows none
    from_red, from_green, from_blue = (green - blue) / divisor, (blue - red) / divisor + 2, (red - green) / divisor + 4
    sixths = torch.where(value == red, from_red, torch.where(value == green, from_green, from_blue))  # sixths of a turn
    hue = sixths.div_(6).add_(turns[:, None, None])
    rotated = torch.empty_like(images)
    for channel, middle in enumerate((3, 1, -1)):  # where on the circle red, green and blue are weakest
        away = hue + middle / 6
        away -= away.round()  # from -1/2 to 1/2; torch.remainder is ten times as slow on a CPU
        faded = away.abs_().mul_(-6).add_(2).clamp_(0, 1)
        torch.addcmul(value, chroma, faded, value=-1, out=rotated[:, channel])
    return rotated


def solarize(images: Tensor, threshold: float) -> Tensor:
    """Images in [0, 1] with values of `threshold` and above inverted."""
    return torch.where(images >= threshold, 1 - images, images)


def _column(values: Tensor) -> Tensor:
    return values[:, None, None, None]
