"""Changes of colour, a batch at a time, with strengths of their own for every image."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

# B images per device, H, W pixels

BrightnessMode: TypeAlias = Literal["multiplicative", "additive"]
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


def grayscale(images: Tensor) -> Tensor:
    """[B, 3, H, W] to brightness as the eye weighs it, [B, 1, H, W]."""
    red, green, blue = images.unbind(dim=1)
    return (_LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue)[:, None]


def jitter(images: Tensor, how: Jitter, brightness_mode: BrightnessMode) -> Tensor:
    """Images after brightness, contrast, saturation and hue, each image in its own order, cut to [0, 1] after each.

    Args:
        images: [B, 3, H, W], in [0, 1].
        how: strengths and orders.
        brightness_mode: multiplicative or additive.
    """
    # hue is dear: once for all images, with the cheap three before it or after it as each image's order asks
    for place in range(3):
        images = _blend(images, how, place, how.hue_place > place, brightness_mode)
    images = rotate_hue(images, how.hue)
    for place in range(3):
        images = _blend(images, how, place, how.hue_place <= place, brightness_mode)
    return images


def _blend(images: Tensor, how: Jitter, place: int, is_due: Tensor, brightness_mode: BrightnessMode) -> Tensor:
    """The operation at one place of each image's order, where it is due: all three blend with a reference."""
    operation = how.order[:, place]  # [B]
    gray = grayscale(images)  # [B, 1, H, W]
    mean_gray = gray.mean(dim=(2, 3), keepdim=True)  # [B, 1, 1, 1]
    is_brightness, is_contrast = _column(operation == 0), _column(operation == 1)
    zero = torch.zeros((), device=images.device)
    references = torch.where(is_brightness, zero, torch.where(is_contrast, mean_gray, gray))
    one = torch.ones_like(how.contrast)
    brightness = how.brightness if brightness_mode == "multiplicative" else one
    factors = torch.where(operation == 0, brightness, torch.where(operation == 1, how.contrast, how.saturation))
    factors = _column(torch.where(is_due, factors, one))
    blended = references + factors * (images - references)
    if brightness_mode == "additive":
        blended = blended + _column(torch.where(is_due & (operation == 0), how.brightness, zero))
    return blended.clamp(0, 1)


def rotate_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Images [B, 3, H, W] in [0, 1] with colours moved round the HSV circle by `turns` [B]; greys do not change."""
    red, green, blue = images.unbind(dim=1)  # [B, H, W]
    value = images.amax(dim=1)
    chroma = value - images.amin(dim=1)
    divisor = torch.where(chroma > 0, chroma, torch.ones_like(chroma))
    from_red, from_green, from_blue = (green - blue) / divisor, (blue - red) / divisor + 2, (red - green) / divisor + 4
    sixths = torch.where(value == red, from_red, torch.where(value == green, from_green, from_blue))  # sixths of a turn
    sixths = sixths + 6 * turns[:, None, None]
    channels = []
    for start in (5, 3, 1):  # where on the circle red, green and blue begin to fade
        along = start + sixths
        along = along - 6 * torch.floor(along / 6)  # torch.remainder is ten times as slow on a CPU
        channels.append(value - chroma * torch.minimum(along, 4 - along).clamp(0, 1))
    return torch.stack(channels, dim=1)


def solarize(images: Tensor, threshold: float) -> Tensor:
    """Images in [0, 1] with values of `threshold` and above inverted."""
    return torch.where(images >= threshold, 1 - images, images)


def _column(values: Tensor) -> Tensor:
    return values[:, None, None, None]
