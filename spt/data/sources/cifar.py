"""CIFAR-10 and CIFAR-100: colour photographs, 32 x 32."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torchvision.datasets import CIFAR10, CIFAR100

from spt.config.errors import ConfigError
from spt.data.images import MemoryImages, Splits
from spt.data.sources.missing import download, missing

_KINDS = {10: CIFAR10, 100: CIFAR100}


@dataclass(frozen=True)
class Cifar:
    """50000 training and 10000 validation images.

    Attributes:
        num_classes: 10 | 100.
        root: torchvision's folder.
        download: fetches the archive to `root` when it is not there (170 MB).
    """

    in_memory: ClassVar[bool] = True

    num_classes: int
    root: str
    download: bool

    def __post_init__(self) -> None:
        """Refuses a CIFAR that does not exist."""
        if self.num_classes not in _KINDS:
            raise ConfigError(f"There is no CIFAR-{self.num_classes}; use data=cifar10 or data=cifar100.")

    def prepare(self) -> None:
        """Downloads what is missing, if it may."""
        root, kind = Path(self.root).expanduser(), _KINDS[self.num_classes]
        if self.download and not (root / kind.base_folder).is_dir():
            download(self._name, lambda: kind(str(root), download=True), root, self._how)

    def load(self) -> Splits:
        """The authors' split."""
        train, val = (self._read(is_train) for is_train in (True, False))
        return Splits(train=train, val=val, num_classes=self.num_classes)

    def _read(self, is_train: bool) -> MemoryImages:
        root, kind = Path(self.root).expanduser(), _KINDS[self.num_classes]
        try:
            data = kind(str(root), train=is_train)
        except RuntimeError as error:  # files absent, or their checksums wrong
            folder = root / kind.base_folder
            raise missing(self._name, files="complete set of batches", places=[folder], how=self._how) from error
        images = torch.from_numpy(data.data).permute(0, 3, 1, 2).contiguous()  # [N, 3, 32, 32]
        return MemoryImages(images, torch.tensor(data.targets))

    @property
    def _name(self) -> str:
        return f"CIFAR-{self.num_classes}"

    @property
    def _how(self) -> str:
        url, root = _KINDS[self.num_classes].url, Path(self.root).expanduser().resolve()
        return (
            f"Use data.source.download=true on a machine with a network, or unpack {url} in {root}; "
            "data=digits needs no files."
        )
