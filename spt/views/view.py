"""One recipe of augmentation."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from spt.config.errors import ConfigError
from spt.views.blur import gaussian_blur
from spt.views.boxes import Boxes, random_boxes
from spt.views.color import UNTOUCHED, BrightnessMode, Jitter, Rows, change_some, grayscale, jitter, solarize
from spt.views.reduced import Box
from spt.views.resample import Interpolation, resize_bytes

# B images per device, H, W pixels of the image, S pixels of the crop

COLOR_DRAWS = 14
"""Random numbers that `View.changes` takes."""

_PROBABILITIES = ("flip", "jitter", "gray", "blur", "solarize")
_RANGES = ("crop_scale", "crop_ratio", "blur_sigma")


class Changes(NamedTuple):
    """What befalls each crop of a batch.

    Attributes:
        is_flipped: [B], bool.
        jitter: of B images.
        is_gray: [B], bool.
        sigmas: [B], blur in pixels; 0 for none.
        is_solarized: [B], bool.
    """

    is_flipped: Tensor
    jitter: Jitter
    is_gray: Tensor
    sigmas: Tensor
    is_solarized: Tensor

    def of(self, rows: Rows) -> Changes:
        """What befalls some rows of the batch."""
        return Changes(
            self.is_flipped[rows], self.jitter.of(rows), self.is_gray[rows], self.sigmas[rows], self.is_solarized[rows]
        )


@dataclass(frozen=True)
class View:
    """How one augmented version of an image is made: crop, flip, jitter, grey, blur, solarize, by its own draws.

    Colours are in [0, 1]. Everything is a function of the draws that come in, so that it can be repeated anywhere.

    Attributes:
        crop_scale: [low, high], area of the crop as a share of the image.
        crop_ratio: [low, high], width / height of the crop.
        interpolation: bicubic | bilinear.
        flip: probability of a horizontal flip.
        jitter: probability of brightness, contrast, saturation and hue, in random order.
        brightness: strength s: factor in [max(0, 1 - s), 1 + s], or what is added in [-s, s].
        contrast: strength, a factor as above.
        saturation: strength, a factor as above.
        hue: strength s: turns of the colour circle in [-s, s].
        brightness_mode: multiplicative | additive.
        gray: probability of losing colour.
        blur: probability of a Gaussian blur.
        blur_sigma: [low, high], standard deviation in pixels of a crop of `blur_reference_size`.
        blur_reference_size: pixels; a crop of another size is blurred in proportion.
        solarize: probability of inverting the bright values.
        solarize_threshold: values from here on are inverted.
    """

    crop_scale: list[float]
    crop_ratio: list[float]
    interpolation: Interpolation
    flip: float
    jitter: float
    brightness: float
    contrast: float
    saturation: float
    hue: float
    brightness_mode: BrightnessMode
    gray: float
    blur: float
    blur_sigma: list[float]
    blur_reference_size: int
    solarize: float
    solarize_threshold: float

    def __post_init__(self) -> None:
        """Refuses values that mean nothing.

        Raises:
            ConfigError: a probability outside [0, 1], a range out of order, a strength or a word that does not exist.
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in _PROBABILITIES:
            if not 0 <= values[name] <= 1:
                raise ConfigError(f"{name}={values[name]} of a view is a probability; use a number from 0 to 1.")
        for name in _RANGES:
            _check_range(name, values[name])
        if self.crop_scale[1] > 1:
            raise ConfigError(f"crop_scale={self.crop_scale} of a view is a share of the image; use at most 1.")
        if min(self.brightness, self.contrast, self.saturation) < 0 or not 0 <= self.hue <= 0.5:
            raise ConfigError("Strengths of a view's jitter cannot be negative, and hue not above 0.5 (half a turn).")
        if self.interpolation not in ("bicubic", "bilinear"):
            raise ConfigError(f"interpolation={self.interpolation} of a view is unknown; use bicubic or bilinear.")
        if self.brightness_mode not in ("multiplicative", "additive"):
            raise ConfigError(f"brightness_mode={self.brightness_mode} is unknown; use multiplicative or additive.")

    def boxes(self, draws: Tensor, *, height: int, width: int) -> Boxes:
        """Random crops of images of one size.

        Args:
            draws: [B, boxes.DRAWS], in [0, 1).
            height: of every image, in pixels.
            width: of every image, in pixels.
        """
        return random_boxes(draws, height=height, width=width, scale=self.crop_scale, ratio=self.crop_ratio)

    def crop_one(self, image: Tensor, box: Box, size: int) -> Tensor:
        """One image's crop, in a data worker, rounded to bytes.

        Args:
            image: [3, H, W], uint8, on the CPU.
            box: inside the image.
            size: pixels of the crop's sides.

        Returns:
            [3, size, size], uint8.
        """
        inside = image[:, box.top : box.top + box.height, box.left : box.left + box.width]
        return resize_bytes(inside, size, size, self.interpolation)

    def changes(self, draws: Tensor, size: int) -> Changes:
        """What befalls crops of `size` pixels after the crop, from [B, COLOR_DRAWS] draws in [0, 1)."""
        return Changes(
            is_flipped=draws[:, 0] < self.flip,
            jitter=self._jitter(draws[:, 1:10]),
            is_gray=draws[:, 10] < self.gray,
            sigmas=self._sigmas(draws[:, 11:13], size),
            is_solarized=draws[:, 13] < self.solarize,
        )

    def recolor(self, crops: Tensor, changes: Changes) -> Tensor:
        """Crops, flipped already, after all other changes.

        Args:
            crops: [B, 3, S, S], float32 in [0, 1]; may be changed.
            changes: what befalls each.

        Returns:
            [B, 3, S, S], float32 in [0, 1].
        """
        if self.jitter > 0:
            crops = jitter(crops, changes.jitter, self.brightness_mode, out=crops)
        if self.gray > 0:
            crops = change_some(crops, changes.is_gray, lambda some, rows: grayscale(some).expand_as(some))
        if self.blur > 0:
            sigmas = changes.sigmas
            crops = change_some(crops, sigmas > 0, lambda some, rows: gaussian_blur(some, sigmas[rows]))
        if self.solarize > 0:
            threshold = self.solarize_threshold
            crops = change_some(crops, changes.is_solarized, lambda some, rows: solarize(some, threshold))
        return crops

    def _jitter(self, draws: Tensor) -> Jitter:
        """Strengths and orders from [B, 9] draws."""
        factors = [
            _between(draws[:, 1 + place], max(0.0, 1 - strength), 1 + strength)
            for place, strength in enumerate((self.brightness, self.contrast, self.saturation))
        ]
        if self.brightness_mode == "additive":
            factors[0] = _between(draws[:, 1], -self.brightness, self.brightness)
        is_on = draws[:, 0] < self.jitter  # [B]
        hue = torch.where(is_on, _between(draws[:, 4], -self.hue, self.hue), 0.0)
        order = draws[:, 5:8].argsort(dim=1, stable=True)  # [B, 3]
        hue_place = torch.where(is_on, (4 * draws[:, 8]).long(), UNTOUCHED)  # [B]
        return Jitter(factors[0], factors[1], factors[2], hue, order, hue_place)

    def _sigmas(self, draws: Tensor, size: int) -> Tensor:
        """Blur of each image in pixels, [B], 0 where there is none."""
        sigmas = _between(draws[:, 1], self.blur_sigma[0], self.blur_sigma[1]) * (size / self.blur_reference_size)
        return torch.where(draws[:, 0] < self.blur, sigmas, 0.0)


def flip(images: Tensor, is_flipped: Tensor) -> Tensor:
    """[B, C, H, W] with left and right changed where [B] `is_flipped`; `images` themselves may be changed."""
    return change_some(images, is_flipped, lambda some, rows: some.flip(-1))


def _check_range(name: str, limits: list[float]) -> None:
    if len(limits) != 2 or not 0 < limits[0] <= limits[1]:
        raise ConfigError(f"{name}={limits} of a view is not a range; use {name}=[LOW,HIGH] with 0 < LOW <= HIGH.")


def _between(draws: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * draws
