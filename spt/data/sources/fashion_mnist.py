"""Fashion-MNIST: grey clothes, 28 x 28, ten classes."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torchvision import datasets

from spt.data.images import MemoryImages, Splits
from spt.data.sources.missing import download, missing

_FILES = [f"{split}-{kind}-ubyte" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
_HOW = (
    "Install Debian's package (apt install dataset-fashion-mnist), or use data.source.download=true on a machine with "
    "a network, or set data.source.folder to where the files are; data=digits needs no files."
)


@dataclass(frozen=True)
class FashionMNIST:
    """60000 training and 10000 validation images, read from their idx files, gzipped or not.

    Attributes:
        folder: looked into first; Debian's package puts the files there.
        root: torchvision's folder, looked into next.
        download: fetches the files to `root` when they are in neither (30 MB).
    """

    in_memory: ClassVar[bool] = True

    folder: str
    root: str
    download: bool

    def prepare(self) -> None:
        """Downloads what is missing, if it may."""
        if self.download and self._place() is None:
            root = Path(self.root).expanduser()
            download("Fashion-MNIST", lambda: datasets.FashionMNIST(str(root), download=True), root, _HOW)

    def load(self) -> Splits:
        """The authors' split."""
        place = self._place()
        if place is None:
            files = ", ".join(_FILES) + " (.gz)"
            raise missing("Fashion-MNIST", files=files, places=self._places(), how=_HOW)
        train_images, train_labels, val_images, val_labels = (_read_idx(_find(place, name)) for name in _FILES)
        return Splits(
            train=MemoryImages(train_images[:, None], train_labels.long()),  # [N, 1, 28, 28]
            val=MemoryImages(val_images[:, None], val_labels.long()),
            num_classes=10,
        )

    def _places(self) -> list[Path]:
        return [Path(self.folder).expanduser(), Path(self.root).expanduser() / "FashionMNIST" / "raw"]

    def _place(self) -> Path | None:
        """The first folder that holds all four files."""
        complete = (place for place in self._places() if all(_find(place, name).is_file() for name in _FILES))
        return next(complete, None)


def _find(place: Path, name: str) -> Path:
    plain = place / name
    return plain if plain.is_file() else place / f"{name}.gz"


def _read_idx(file: Path) -> Tensor:
    """Tensor of an idx file: two zeros, type, number of axes, their sizes as big-endian int32, then the bytes."""
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    num_axes = content[3]
    start = 4 + 4 * num_axes
    sizes = np.frombuffer(content, dtype=">i4", count=num_axes, offset=4)
    values = np.frombuffer(content, dtype=np.uint8, offset=start).copy()
    return torch.from_numpy(values.reshape(tuple(int(size) for size in sizes)))
