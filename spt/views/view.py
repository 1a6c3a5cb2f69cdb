"""One recipe of augmentation."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from spt.config.errors import ConfigError
from spt.views.blur import gaussian_blur
from spt.views.boxes import random_boxes
from spt.views.color import BrightnessMode, Jitter, change_some, grayscale, jitter, solarize
from spt.views.reduced import Box
from spt.views.resample import Interpolation, crop_and_resize, resize_bytes

# B images per device, H, W pixels of the image, S pixels of the crop

COLOR_DRAWS = 14
"""Random numbers that `View.recolor` takes."""

_PROBABILITIES = ("flip", "jitter", "gray", "blur", "solarize")
_RANGES = ("crop_scale", "crop_ratio", "blur_sigma")


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

    def crop(self, images: Tensor, draws: Tensor, size: int) -> Tensor:
        """Random crops of images of one size, on their device.

        Args:
            images: [B, 3, H, W], float32 in [0, 1].
            draws: [B, boxes.DRAWS], in [0, 1).
            size: pixels of the crop's sides.

        Returns:
            [B, 3, size, size], float32 in [0, 1].
        """
        height, width = images.shape[-2:]
        boxes = random_boxes(draws, height=height, width=width, scale=self.crop_scale, ratio=self.crop_ratio)
        return crop_and_resize(images, boxes, size, self.interpolation)

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

    def recolor(self, crops: Tensor, draws: Tensor) -> Tensor:
        """Crops after everything but the crop.

        Args:
            crops: [B, 3, S, S], float32 in [0, 1]; may be changed.
            draws: [B, COLOR_DRAWS], in [0, 1).

        Returns:
            [B, 3, S, S], float32 in [0, 1].
        """
        crops = change_some(crops, draws[:, 0] < self.flip, lambda some, rows: some.flip(-1))
        if self.jitter > 0:
            how = self._jitter(draws[:, 1:10])
            is_on = draws[:, 1] < self.jitter
            crops = change_some(crops, is_on, lambda some, rows: jitter(some, how.of(rows), self.brightness_mode))
        if self.gray > 0:
            crops = change_some(crops, draws[:, 10] < self.gray, lambda some, rows: grayscale(some).expand_as(some))
        if self.blur > 0:
            sigmas = self._sigmas(draws[:, 11:13], crops.shape[-1])
            crops = change_some(crops, sigmas > 0, lambda some, rows: gaussian_blur(some, sigmas[rows]))
        if self.solarize > 0:
            is_on = draws[:, 13] < self.solarize
            crops = change_some(crops, is_on, lambda some, rows: solarize(some, self.solarize_threshold))
        return crops

    def _jitter(self, draws: Tensor) -> Jitter:
        """Strengths and orders from [B, 9] draws; the identity for images that are not jittered."""
        is_on = draws[:, 0] < self.jitter  # [B]
        factors = [
            1 + torch.where(is_on, _between(draws[:, 1 + place], max(0.0, 1 - strength) - 1, strength), 0.0)
            for place, strength in enumerate((self.brightness, self.contrast, self.saturation))
        ]
        if self.brightness_mode == "additive":
            factors[0] = torch.where(is_on, _between(draws[:, 1], -self.brightness, self.brightness), 0.0)
        hue = torch.where(is_on, _between(draws[:, 4], -self.hue, self.hue), 0.0)
        order = draws[:, 5:8].argsort(dim=1, stable=True)  # [B, 3]
        hue_place = (4 * draws[:, 8]).long()  # [B], 0 to 3
        return Jitter(factors[0], factors[1], factors[2], hue, order, hue_place)

    def _sigmas(self, draws: Tensor, size: int) -> Tensor:
        """Blur of each image in pixels, [B], 0 where there is none."""
        sigmas = _between(draws[:, 1], self.blur_sigma[0], self.blur_sigma[1]) * (size / self.blur_reference_size)
        return torch.where(draws[:, 0] < self.blur, sigmas, 0.0)


def _check_range(name: str, limits: list[float]) -> None:
    if len(limits) != 2 or not 0 < limits[0] <= limits[1]:
        raise ConfigError(f"{name}={limits} of a view is not a range; use {name}=[LOW,HIGH] with 0 < LOW <= HIGH.")


def _between(draws: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * draws
