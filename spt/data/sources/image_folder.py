"""Images in folders, one folder a class, as ImageNet is laid out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from spt.config.errors import ConfigError
from spt.data.files import FileImages, without_unreadable
from spt.data.images import Splits
from spt.data.sources.missing import missing

_ENDINGS = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff")
_HOW = "Use data.source.root=FOLDER with images in FOLDER/train/CLASS/ and FOLDER/val/CLASS/."


@dataclass(frozen=True)
class ImageFolder:
    """Image files of any size, decoded and cropped in workers.

    Attributes:
        root: folder that holds train/CLASS/IMAGE and val/CLASS/IMAGE.
        on_unreadable: stop: a damaged file ends the run; skip: another image takes its place in training, and none in
            evaluation.
        verify: opens every file before training, to name all damaged ones at once (minutes for a million files).
    """

    root: str
    on_unreadable: Literal["stop", "skip"]
    verify: bool

    def __post_init__(self) -> None:
        """Refuses an unknown word."""
        if self.on_unreadable not in ("stop", "skip"):
            raise ConfigError(
                f"data.source.on_unreadable={self.on_unreadable} is unknown; use data.source.on_unreadable=stop or "
                "data.source.on_unreadable=skip."
            )

    def prepare(self) -> None:
        """Nothing to fetch."""

    def load(self) -> Splits:
        """Both splits; a class's label is its place among the sorted names of the training folders."""
        root = Path(self.root).expanduser()
        classes = _folders(root / "train")
        train, val = (self._read(root / split, classes) for split in ("train", "val"))
        return Splits(train=train, val=val, num_classes=len(classes))

    def _read(self, folder: Path, classes: list[str]) -> FileImages:
        unknown = sorted(set(_folders(folder)) - set(classes))
        if unknown:
            raise ConfigError(
                f"{folder} has classes that the training images lack: {', '.join(unknown[:10])}; remove their folders, "
                "or add training images."
            )
        files = [
            (file, label)
            for label, name in enumerate(classes)
            for file in (_images(folder / name) if (folder / name).is_dir() else [])
        ]
        if not files:
            kinds = "|".join(_ENDINGS)
            raise missing(f"data.source.root={self.root}", files=f"{kinds} file", places=[folder], how=_HOW)
        if self.verify:
            files = without_unreadable(files, self.on_unreadable)
        paths, labels = zip(*files, strict=True)
        return FileImages(list(paths), torch.tensor(labels), on_unreadable=self.on_unreadable)


def _folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise missing(f"The folder {folder}", files="such folder", places=[folder.parent], how=_HOW)
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    if not names:
        raise missing(f"The folder {folder}", files="folder of a class", places=[folder], how=_HOW)
    return names


def _images(folder: Path) -> list[str]:
    """Paths of the images in a class's folder, sorted."""
    return sorted(entry.path for entry in os.scandir(folder) if entry.name.lower().endswith(_ENDINGS))
