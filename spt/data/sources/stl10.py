"""STL-10: colour photographs, 96 x 96, most of them without label."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torchvision import datasets

from spt.config.errors import ConfigError
from spt.data.images import MemoryImages, Splits
from spt.data.sources.missing import download, missing


@dataclass(frozen=True)
class STL10:
    """Up to 105000 training images and 8000 validation images of ten classes.

    Attributes:
        split: train+unlabeled (5000 with a label, 100000 without) | train (5000).
        root: torchvision's folder.
        download: fetches the archive to `root` when it is not there (2.6 GB).
    """

    in_memory: ClassVar[bool] = True

    split: Literal["train+unlabeled", "train"]
    root: str
    download: bool

    def __post_init__(self) -> None:
        """Refuses an unknown split: k-NN needs the labelled images in any case."""
        if self.split not in ("train+unlabeled", "train"):
            raise ConfigError(
                f"data.source.split={self.split} is unknown; use data.source.split=train+unlabeled or "
                "data.source.split=train with data.num_images=5000."
            )

    def prepare(self) -> None:
        """Downloads what is missing, if it may."""
        root = Path(self.root).expanduser()
        if self.download and not (root / datasets.STL10.base_folder).is_dir():
            download("STL-10", lambda: datasets.STL10(str(root), download=True), root, self._how)

    def load(self) -> Splits:
        """The authors' split; images without label have label -1."""
        return Splits(train=self._read(self.split), val=self._read("test"), num_classes=10)

    def _read(self, split: str) -> MemoryImages:
        root = Path(self.root).expanduser()
        try:
            data = datasets.STL10(str(root), split=split)
        except RuntimeError as error:  # files absent, or their checksums wrong
            folder = root / datasets.STL10.base_folder
            raise missing("STL-10", files="complete set of .bin files", places=[folder], how=self._how) from error
        return MemoryImages(torch.from_numpy(data.data), torch.from_numpy(data.labels).long())  # [N, 3, 96, 96]

    @property
    def _how(self) -> str:
        return (
            f"Use data.source.download=true on a machine with a network, or unpack {datasets.STL10.url} in "
            f"{Path(self.root).expanduser().resolve()}; data=digits needs no files."
        )
