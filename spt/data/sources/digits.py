"""Handwritten digits, 8 x 8, that come with scikit-learn: no download."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from spt.config.errors import ConfigError
from spt.data.images import MemoryImages, Splits


@dataclass(frozen=True)
class Digits:
    """1797 grey images of ten classes, at their own 8 x 8 pixels.

    Attributes:
        val_share: share of every class that is kept for validation.
        split_seed: of the split, apart from the run's seed so that runs can be compared.
    """

    in_memory: ClassVar[bool] = True

    val_share: float
    split_seed: int

    def __post_init__(self) -> None:
        """Refuses a split that would leave a class without images on one side.

        Raises:
            ConfigError: the share is out of range.
        """
        if not 0.01 <= self.val_share <= 0.99:
            raise ConfigError(
                f"data.source.val_share={self.val_share} leaves classes without images to train on or to validate; use "
                "a share from 0.01 to 0.99."
            )

    def prepare(self) -> None:
        """Nothing to fetch."""

    def load(self) -> Splits:
        """Stratified split into training and validation images."""
        digits = load_digits()
        train, val = train_test_split(
            range(len(digits.target)), test_size=self.val_share, random_state=self.split_seed, stratify=digits.target
        )
        # the originals count to 16
        images = (torch.from_numpy(digits.images) * (255 / 16)).round().byte()[:, None]  # [N, 1, 8, 8]
        labels = torch.from_numpy(digits.target).long()  # [N]
        return Splits(
            train=MemoryImages(images[train], labels[train]), val=MemoryImages(images[val], labels[val]), num_classes=10
        )
