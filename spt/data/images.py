"""What a data set is: images with labels, in memory or in files, and the samples that a loader makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from spt.types import Sample
from spt.views.reduced import Box

# N images of the set, B images per device, H, W pixels


class Key(NamedTuple):
    """Which image a sample holds, and when.

    Attributes:
        epoch: the pass over the data; carried by the key so that workers that live for the whole run need no message.
        row: position in the set, which samples call index; -1 asks for a padded duplicate that no metric may count.
    """

    epoch: int
    row: int


class Cropper(Protocol):
    """What makes views out of single images, in a data worker."""

    @property
    def makes_whole_views(self) -> bool:
        """Colours are changed too, so that images of one size are for workers as well."""

    def draws(self, epochs: Tensor, indices: Tensor) -> Tensor:
        """[B, ...], what makes the views of one image differ from those of another."""

    def crop(self, image: Image.Image | Tensor, draws: Tensor) -> list[Tensor]:
        """One [3, S, S], uint8, a view, by one image's draws."""

    def boxes(self, height: int, width: int, draws: Tensor) -> list[Box]:
        """Where these are taken from an image of this size."""

    def largest_reduction(self, boxes: list[Box], pixel_ratio: float) -> int:
        """How many times smaller an image may be decoded that each crop has so many pixels a pixel of its view."""

    def cut(self, image: Image.Image | Tensor, boxes: list[Box], reduction: int) -> list[Tensor]:
        """As `crop`, from boxes in pixels of the whole image, when it was decoded so many times smaller."""

    def evaluation_crop_of(self, image: Image.Image | Tensor) -> Tensor:
        """[3, S, S], uint8."""


class ImageSet(Protocol):
    """Images and their labels.

    Attributes:
        labels: [N], int64; -1 for an image without label.
    """

    labels: Tensor

    def training_sample(self, keys: list[Key], cropper: Cropper | None) -> Sample:
        """A micro-batch for views; there is a cropper when `needs_cropper` says so, or when it makes whole views."""

    def evaluation_sample(self, keys: list[Key], cropper: Cropper | None) -> Sample:
        """A batch for the evaluated view."""

    @property
    def needs_cropper(self) -> bool:
        """Images differ in size, so that workers must cut the views."""


class Splits(NamedTuple):
    """A data set as a source gives it.

    Attributes:
        train: images to pretrain on.
        val: images to evaluate on, all labelled.
        num_classes: labels are below this.
    """

    train: ImageSet
    val: ImageSet
    num_classes: int


class Source(Protocol):
    """A data set's file in spt/data/sources: one class, one YAML.

    A class that says `in_memory: ClassVar[bool] = True` gives `MemoryImages`; rules read that from its source.
    """

    def prepare(self) -> None:
        """Fetches what is missing, if it may; called in one process of each machine."""

    def load(self) -> Splits:
        """The data set. Raises ConfigError when it is not there: which files, where, and how to get them."""


class MemoryImages:
    """Images of one size, held in memory. Views cut their crops a batch at a time on the device.

    Args:
        images: [N, 3 or 1, H, W], uint8; grey images get three channels that share memory.
        labels: [N], int64, on the same device.
    """

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self._stored = images
        self.images = images.expand(-1, 3, -1, -1)
        self.labels = labels

    @property
    def num_bytes(self) -> int:
        """Memory that the images take."""
        return self._stored.numel()

    def on(self, device: torch.device) -> MemoryImages:
        """The same images in a device's memory: its batches are made there, and nothing is copied for them."""
        return MemoryImages(self._stored.to(device), self.labels.to(device))

    @property
    def needs_cropper(self) -> bool:
        """False: the device cuts the crops."""
        return False

    def training_sample(self, keys: list[Key], cropper: Cropper | None) -> Sample:
        """Sample with images [B, 3, H, W], or with one [B, 3, S, S] a view when the cropper makes them."""
        return made_sample(self._of, self.labels, keys, cropper)

    def evaluation_sample(self, keys: list[Key], cropper: Cropper | None) -> Sample:
        """Sample with images [B, 3, H, W]."""
        return made_sample(self._of, self.labels, keys, None)

    def _of(self, rows: Tensor) -> Tensor:
        return self.images[rows]  # [B, 3, H, W]


def made_sample(make: Callable[[Tensor], Tensor], labels: Tensor, keys: list[Key], cropper: Cropper | None) -> Sample:
    """Images of one size as a sample.

    Args:
        make: rows [B] to images [B, 3, H, W], uint8, on the labels' device.
        labels: [N], int64; images and labels of the sample are on their device, its numbers on the host, which draws
            masks by them.
        keys: B of them.
        cropper: makes the views; None leaves that to the device.
    """
    epochs, indices = torch.tensor(keys).unbind(dim=1)  # [B], [B]
    # any image will do for a duplicate that is not counted; non_blocking: else a GPU is waited for, with all that it
    # has still to do
    rows = indices.clamp(min=0).to(labels.device, non_blocking=True)
    images: Tensor | list[Tensor] = make(rows)
    if cropper is not None:
        pairs = zip(images, cropper.draws(epochs, indices), strict=True)
        images = stacked(cropper.crop(image, draws) for image, draws in pairs)
    return Sample(images, labels[rows], indices.contiguous(), epochs.contiguous())


def stacked(views: Iterable[list[Tensor]]) -> list[Tensor]:
    """From one list a image of [3, S, S] a view to one list of [B, 3, S, S]."""
    return [torch.stack(view) for view in zip(*views, strict=True)]


class Samples(Dataset[Sample]):
    """Batches of a set by their keys; what a DataLoader calls its data set.

    Args:
        images: the set.
        cropper: cuts views in workers, for sets that need it.
        is_training: augmented views, else the evaluated one.
    """

    def __init__(self, images: ImageSet, cropper: Cropper | None, *, is_training: bool) -> None:
        self.images = images
        self.cropper = cropper
        self.is_training = is_training

    def __len__(self) -> int:
        return len(self.images.labels)

    def __getitem__(self, key: Key) -> Sample:
        """A batch of one."""
        return self.__getitems__([key])

    def __getitems__(self, keys: list[Key]) -> Sample:
        """A whole batch at once, which the DataLoader prefers to one call an image."""
        if self.is_training:
            return self.images.training_sample(keys, self.cropper)
        return self.images.evaluation_sample(keys, self.cropper)
