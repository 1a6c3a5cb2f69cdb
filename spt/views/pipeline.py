"""Views that torchvision makes image by image in data workers: its version of a `View`, or a pipeline of the user's."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms import v2

from spt.config.errors import ConfigError
from spt.views.view import View

# H, W pixels of the image, S pixels of the view

Transform: TypeAlias = Callable[[Tensor], Tensor]

_BLUR_REACH = 4  # standard deviations that a kernel extends to; what lies beyond weighs less than a level of 255


class Pipeline:
    """A random transform whose draws follow from a seed, whatever was drawn before.

    Args:
        view: a `View`, for which torchvision's own transforms stand in; or any function of [3, H, W], uint8, that
            draws from the global generators of torch, numpy or Python and gives [3, S, S], uint8.
        size: S.
    """

    def __init__(self, view: View | Transform, size: int) -> None:
        self.transform: Transform = torchvision_transform(view, size) if isinstance(view, View) else view
        self.size = size

    def __call__(self, image: Tensor, seed: int) -> Tensor:
        """[3, S, S], uint8, from [3, H, W], uint8. The global generators are left as they were.

        Raises:
            ConfigError: the transform gives something else.
        """
        with seeded(seed):
            view = self.transform(image)
        if view.dtype != torch.uint8 or view.shape != (3, self.size, self.size):
            raise ConfigError(
                f"A view of views.global_views or views.local_view came out as {view.dtype} {tuple(view.shape)}, and "
                f"views.mean and views.std are taken off later, on the device; make it torch.uint8 "
                f"{(3, self.size, self.size)}, without a normalisation of its own."
            )
        return view


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Global generators of torch (of the CPU), numpy and Python that start at a seed, and are put back afterwards."""
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which looks for GPUs
    np.random.seed(seed % 2**32)
    random.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def torchvision_transform(view: View, size: int) -> Transform:
    """torchvision's transforms of bytes, distributed as a view's batched ones.

    Differences: values are rounded to bytes after every operation, and a blur sees the image mirrored at its edges.

    Args:
        view: the recipe.
        size: pixels of the view's sides.
    """
    scale, ratio = (view.crop_scale[0], view.crop_scale[1]), (view.crop_ratio[0], view.crop_ratio[1])
    mode = v2.InterpolationMode(view.interpolation)
    low, high = (sigma * size / view.blur_reference_size for sigma in view.blur_sigma)
    return v2.Compose(
        [
            v2.RandomResizedCrop(size, scale=scale, ratio=ratio, interpolation=mode, antialias=True),
            v2.RandomHorizontalFlip(view.flip),
            v2.RandomApply([_jitter(view)], p=view.jitter),
            v2.RandomGrayscale(view.gray),
            v2.RandomApply([Blur(low, high, size)], p=view.blur),
            v2.RandomSolarize(math.ceil(255 * view.solarize_threshold), p=view.solarize),
        ]
    )


def _jitter(view: View) -> v2.Transform:
    if view.brightness_mode == "multiplicative":
        return v2.ColorJitter(view.brightness, view.contrast, view.saturation, view.hue)
    factors = [v2.ColorJitter(contrast=view.contrast), v2.ColorJitter(saturation=view.saturation)]
    return v2.RandomOrder([AddBrightness(view.brightness), *factors, v2.ColorJitter(hue=view.hue)])


class AddBrightness(v2.Transform):
    """Adds to all values of an image the same number, uniform in [-strength, strength] of their range.

    Args:
        strength: as a share of the range.
    """

    def __init__(self, strength: float) -> None:
        super().__init__()
        self.strength = strength

    def make_params(self, flat_inputs: list[object]) -> dict[str, float]:
        """The number, of bytes."""
        return {"added": 255 * self.strength * float(2 * torch.rand(()) - 1)}

    def transform(self, inpt: Tensor, params: dict[str, float]) -> Tensor:
        """[3, H, W], uint8, to the same."""
        return (inpt + params["added"]).round_().clamp_(0, 255).to(torch.uint8)


class Blur(v2.Transform):
    """torchvision's Gaussian blur with a kernel as wide as the drawn standard deviation asks for.

    In one as wide as the largest asks for, the weights of a small one are numbers so tiny that processors take ten
    times as long over them.

    Args:
        low: least standard deviation, in pixels.
        high: greatest.
        size: S of the view.
    """

    def __init__(self, low: float, high: float, size: int) -> None:
        super().__init__()
        self.low, self.high, self.size = low, high, size

    def make_params(self, flat_inputs: list[object]) -> dict[str, float]:
        """The standard deviation."""
        return {"sigma": self.low + (self.high - self.low) * float(torch.rand(()))}

    def transform(self, inpt: Tensor, params: dict[str, float]) -> Tensor:
        """[3, S, S], uint8, to the same."""
        sigma = params["sigma"]
        radius = min(math.ceil(_BLUR_REACH * sigma), self.size - 1)  # mirroring adds less than the side
        return v2.functional.gaussian_blur(inpt, [2 * radius + 1, 2 * radius + 1], [sigma, sigma])
