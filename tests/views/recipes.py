"""Recipes for the tests of views: the numbers of RandomResizedCrop and of SimCLR, with everything else switched off."""

from __future__ import annotations

from dataclasses import replace

import torch
from PIL import Image

from spt.types import Sample
from spt.views.pipeline import Transform
from spt.views.view import View
from spt.views.views import Views

CROP_ONLY = View(
    crop_scale=[0.08, 1.0],
    crop_ratio=[3 / 4, 4 / 3],
    interpolation="bicubic",
    flip=0.0,
    jitter=0.0,
    brightness=0.8,
    contrast=0.8,
    saturation=0.8,
    hue=0.2,
    brightness_mode="multiplicative",
    gray=0.0,
    blur=0.0,
    blur_sigma=[0.1, 2.0],
    blur_reference_size=224,
    solarize=0.0,
    solarize_threshold=0.5,
)
WHOLE_IMAGE = replace(CROP_ONLY, crop_scale=[1.0, 1.0], crop_ratio=[1.0, 1.0])
EVERYTHING = replace(CROP_ONLY, flip=0.5, jitter=0.8, gray=0.2, blur=0.5, solarize=0.2, blur_reference_size=12)


def make_views(
    global_views: dict[str, View | Transform],
    *,
    made_on: str = "device",
    local_view: View | Transform | None = None,
    num_local_views: int = 0,
    global_size: int = 12,
    local_size: int = 5,
    evaluation_crop: float = 1.0,
    seed: int = 3,
) -> Views:
    """Views that are not normalised."""
    return Views(
        seed=seed,
        made_on=made_on,
        global_size=global_size,
        local_size=local_size,
        num_local_views=num_local_views,
        mean=[0.0, 0.0, 0.0],
        std=[1.0, 1.0, 1.0],
        evaluation_crop=evaluation_crop,
        local_view=local_view,
        global_views=global_views,
    )


def crop(views: Views, image: torch.Tensor | Image.Image, index: int, epoch: int) -> list[torch.Tensor]:
    """What a data worker makes of one image."""
    return views.crop(image, views.draws(torch.tensor([epoch]), torch.tensor([index]))[0])


def random_bytes(*shape: int) -> torch.Tensor:
    """Noise, the same for the same shape."""
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(sum(shape)))


def make_sample(
    images: torch.Tensor | list[torch.Tensor], num_images: int, *, first: int = 0, epoch: int = 0
) -> Sample:
    """Images with consecutive indices."""
    indices = torch.arange(first, first + num_images)
    return Sample(images, torch.zeros_like(indices), indices, torch.full_like(indices, epoch))
