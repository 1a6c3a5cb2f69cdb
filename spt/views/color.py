"""Changes of colour, a batch at a time, with strengths of their own for every image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

# B images per device, H, W pixels

BrightnessMode: TypeAlias = Literal["multiplicative", "additive"]
Rows: TypeAlias = "Tensor | slice"
UNTOUCHED = -1
"""Place of hue in an image that is not jittered."""

_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as PIL


class Jitter(NamedTuple):
    """How one batch is jittered. Identity: brightness 1 (or 0 when additive), contrast 1, saturation 1, hue 0.

    Attributes:
        brightness: [B], factor of every channel, or what is added to it.
        contrast: [B], factor of the distance to the image's mean grey.
        saturation: [B], factor of the distance to the pixel's grey.
        hue: [B], turns of the colour circle, from -1/2 to 1/2.
        order: [B, 3], a permutation of (0 brightness, 1 contrast, 2 saturation).
        hue_place: [B], 0 to 3: how many of the other three come before hue; UNTOUCHED leaves an image as it is.
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


def jitter(images: Tensor, how: Jitter, brightness_mode: BrightnessMode, out: Tensor | None = None) -> Tensor:
    """Images after brightness, contrast, saturation and hue, each image in its own order, cut to [0, 1] after each.

    Args:
        images: [B, 3, H, W], in [0, 1].
        how: strengths and orders.
        brightness_mode: multiplicative or additive.
        out: written and returned when given; may be `images`.

    A CPU computes only those of six steps round hue that are an image's own, for which images of one hue_place must
    lie together: it is fastest when `how` has them in order. Elsewhere all six are computed, most as the identity,
    for the device would have to be waited for.
    """
    jittered = images.clone() if out is None else out.copy_(images)
    if images.device.type != "cpu":
        everything = [slice(None)] * 3
        return _jitter(jittered, _steps(how, brightness_mode), how.hue, before=everything, after=everything)
    if bool((how.hue_place.diff() < 0).any()):
        rows = how.hue_place.argsort()
        return jittered.index_copy_(0, rows, jitter(jittered.index_select(0, rows), how.of(rows), brightness_mode))
    untouched, *starts = torch.searchsorted(how.hue_place, torch.arange(4)).tolist()
    before, after = [slice(start, None) for start in starts], [slice(untouched, start) for start in starts]
    return _jitter(jittered, _steps(how, brightness_mode), how.hue, before=before, after=after)


def _jitter(images: Tensor, steps: Tensor, turns: Tensor, *, before: list[slice], after: list[slice]) -> Tensor:
    """Steps, and hue between them, in place: each for some rows, before hue and after it."""
    for place, rows in enumerate(before):
        _blend(images[rows], steps[place, :, rows])
    rotate_hue(images, turns, out=images)
    for place, rows in enumerate(after):
        _blend(images[rows], steps[3 + place, :, rows])
    return images


def _steps(how: Jitter, brightness_mode: BrightnessMode) -> Tensor:
    """Three steps before hue and three after it, for `_blend`; one that is not an image's own is the identity.

    Returns:
        [6, 4, B, 1, 1, 1].
    """
    places = torch.arange(3, device=how.order.device)[:, None]
    is_before, is_after = places < how.hue_place, (places >= how.hue_place) & (how.hue_place >= 0)  # [3, B]
    operations = how.order.T  # [3, B]
    operations = torch.cat((operations.where(is_before, 3), operations.where(is_after, 3)))  # [6, B]; 3 for nothing
    identity = torch.ones_like(how.brightness)
    strengths = torch.stack((how.brightness, how.contrast, how.saturation, identity)).gather(0, operations)
    added = torch.zeros_like(strengths)
    if brightness_mode == "additive":
        is_brightness = operations == 0
        added, strengths = strengths * is_brightness, strengths.masked_fill(is_brightness, 1)
    rest = 1 - strengths
    return torch.stack((strengths, rest * (operations == 2), rest * (operations == 1), added), 1)[..., None, None, None]


def _blend(images: Tensor, step: Tensor) -> None:
    """One step, in place: each pixel x becomes factor * x + gray_share * its grey + mean_share * the mean grey + added.

    Args:
        images: [B, 3, H, W].
        step: [4, B, 1, 1, 1], in the order of the sum.
    """
    factors, gray_shares, mean_shares, added = step
    gray = grayscale(images)  # [B, 1, H, W]
    offsets = gray.mean(dim=(1, 2, 3), keepdim=True).mul_(mean_shares).add_(added)
    shifts = gray.mul_(gray_shares).add_(offsets)
    torch.addcmul(shifts, images, factors, out=images).clamp_(0, 1)


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


def rotate_hue(images: Tensor, turns: Tensor, out: Tensor | None = None) -> Tensor:
    """Images in [0, 1] with colours moved round the HSV circle; greys do not change.

    Args:
        images: [B, 3, H, W].
        turns: [B], from -1/2 to 1/2.
        out: written and returned when given; may be `images`.

    Equals a way through HSV, but divides by nothing. A third of a turn hands each channel's values to the next. What
    is left is at most a sixth, the way of one channel from the least value of its pixel to the greatest: the middle
    channel moves by that share of chroma, and when it arrives, the channel whose turn it is moves on from its extreme.
    """
    thirds = (3 * turns).round()
    rest = 6 * turns - 2 * thirds  # [B], sixths of a turn, from -1 to 1
    channels, rows = (torch.arange(count, device=images.device) for count in (3, len(images)))
    sources = 3 * rows[:, None] + (channels - thirds.long()[:, None]) % 3  # [B, 3]
    red, green, blue = images.flatten(0, 1).index_select(0, sources.flatten()).view_as(images).unbind(dim=1)
    lower, higher = torch.minimum(red, green), torch.maximum(red, green)  # [B, H, W]
    middle = torch.maximum(lower, torch.minimum(higher, blue))
    least, most = torch.minimum(lower, blue, out=lower), torch.maximum(higher, blue, out=higher)
    moves = (most - least).mul_(rest[:, None, None])
    rotated = torch.empty_like(images) if out is None else out
    moved = torch.empty_like(moves)
    for place, (channel, before, after) in enumerate(((red, blue, green), (green, red, blue), (blue, green, red))):
        # a channel grows where the one before it is stronger than the one after it; beyond the extremes it stays
        torch.sub(before, after, out=moved).sign_().mul_(moves).add_(channel, alpha=2).sub_(middle)
        torch.clamp(moved, least, most, out=rotated[:, place])
    return rotated


def solarize(images: Tensor, threshold: float) -> Tensor:
    """Images in [0, 1] with values of `threshold` and above inverted."""
    return torch.where(images >= threshold, 1 - images, images)


def _column(values: Tensor) -> Tensor:
    return values[:, None, None, None]
