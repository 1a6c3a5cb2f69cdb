"""Random images, for measuring speed and for dry runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from spt.data.images import Cropper, Key, Splits, made_sample
from spt.types import Sample

# P images in the pool, S pixels, B images per device

_POOL = 64  # images kept in memory; every other image is one of them with its values shifted


@dataclass(frozen=True)
class Fake:
    """Noise whose pixels and label follow from the image's index.

    Attributes:
        image_size: pixels.
        num_classes: labels go round them.
        num_images: training images; costs no memory.
        num_val_images: validation images.
    """

    in_memory: ClassVar[bool] = False

    image_size: int
    num_classes: int
    num_images: int
    num_val_images: int

    def prepare(self) -> None:
        """Nothing to fetch."""

    def load(self) -> Splits:
        """Training and validation images from different pools."""
        return Splits(
            train=FakeImages(self.num_images, self.image_size, self.num_classes, seed=0),
            val=FakeImages(self.num_val_images, self.image_size, self.num_classes, seed=1),
            num_classes=self.num_classes,
        )


class FakeImages:
    """Images made when they are asked for, from a small pool.

    Args:
        num_images: N.
        image_size: S.
        num_classes: labels are index modulo this.
        seed: of the pool.
    """

    def __init__(self, num_images: int, image_size: int, num_classes: int, *, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (_POOL, 3, image_size, image_size)
        self.pool = torch.randint(256, shape, dtype=torch.uint8, generator=generator)
        self.labels = torch.arange(num_images) % num_classes

    @property
    def needs_cropper(self) -> bool:
        """False: all images have one size."""
        return False

    def training_sample(self, keys: list[Key], cropper: Cropper | None) -> Sample:
        """Sample with images [B, 3, S, S], or with one such tensor a view when the cropper makes them."""
        return made_sample(self._make, self.labels, keys, cropper)

    def evaluation_sample(self, keys: list[Key], cropper: Cropper | None) -> Sample:
        """Sample with images [B, 3, S, S]."""
        return made_sample(self._make, self.labels, keys, None)

    def _make(self, rows: Tensor) -> Tensor:
        shifts = (rows // _POOL).byte()[:, None, None, None]
        return self.pool[rows % _POOL] + shifts  # [B, 3, S, S]; bytes wrap
