"""Images in files, and what happens to those that cannot be read."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import torch
from PIL import Image
from torch import Tensor

from spt.config.errors import ConfigError
from spt.data.images import Cropper, Key
from spt.types import Sample

# N images of the set, B images per device

logger = logging.getLogger(__name__)

_UNREADABLE = (OSError, ValueError, SyntaxError)  # what PIL raises for absent, foreign, cut-off and garbled files
_SKIP = "data.source.on_unreadable=skip"


class FileImages:
    """Images of any size in files; data workers decode them and cut their views.

    Args:
        paths: N files.
        labels: [N], int64.
        on_unreadable: stop raises; skip takes the next readable file in training, and counts nothing in evaluation.
    """

    def __init__(self, paths: Sequence[str], labels: Tensor, *, on_unreadable: Literal["stop", "skip"]) -> None:
        self.paths = paths
        self.labels = labels
        self.on_unreadable = on_unreadable
        # shared with the workers, so that each damaged file is reported once and not once a worker and epoch
        self._is_reported = torch.zeros(len(paths), dtype=torch.bool).share_memory_()

    @property
    def needs_cropper(self) -> bool:
        """True: views are cut in workers."""
        return True

    def training_sample(self, keys: list[Key], cropper: Cropper | None) -> Sample:
        """Sample with one [B, 3, S, S] a view. An image that takes another's place keeps the other's index.

        Raises:
            ConfigError: names the file that cannot be read, unless it may be skipped.
        """
        assert cropper is not None, "files differ in size: a cropper must be attached"
        rows, crops = [], []
        for key in keys:
            row, image = self._read_nearby(key.row)
            rows.append(row)
            crops.append(cropper.crop(image, key.row, key.epoch))
        views = [torch.stack(view) for view in zip(*crops, strict=True)]
        epochs, indices = torch.tensor(keys).unbind(dim=1)  # [B], [B]
        return Sample(views, self.labels[rows], indices.contiguous(), epochs.contiguous())

    def evaluation_sample(self, keys: list[Key], cropper: Cropper | None) -> Sample:
        """Sample with one [B, 3, S, S], the evaluated view; the index of a file that is skipped is -1.

        Raises:
            ConfigError: names the file that cannot be read, unless it may be skipped.
        """
        assert cropper is not None, "files differ in size: a cropper must be attached"
        rows, indices, views = [], [], []
        for key in keys:
            row, image = self._read_nearby(max(key.row, 0))
            rows.append(row)
            indices.append(key.row if row == key.row else -1)
            views.append(cropper.evaluation_crop_of(image))
        epochs = torch.tensor([key.epoch for key in keys])
        return Sample([torch.stack(views)], self.labels[rows], torch.tensor(indices), epochs)

    def _read_nearby(self, index: int) -> tuple[int, Image.Image]:
        """The image, or the next one that can be read if this one may be skipped; and its row."""
        for step in range(len(self.paths)):
            row = (index + step) % len(self.paths)
            try:
                return row, decode(self.paths[row])
            except _UNREADABLE as error:
                if self.on_unreadable == "stop":
                    raise ConfigError(
                        f"The image {self.paths[row]} cannot be read ({error}); replace it, use {_SKIP} to go on "
                        "without it, or use data.source.verify=true to find all such files first."
                    ) from error
                self._report(row, error)
        raise ConfigError(f"None of the {len(self.paths)} images around {self.paths[index]} can be read.")

    def _report(self, row: int, error: Exception) -> None:
        if not self._is_reported[row]:
            self._is_reported[row] = True
            logger.warning("The image %s cannot be read (%s): left out.", self.paths[row], error)


def decode(path: str) -> Image.Image:
    """The whole image, in three channels."""
    with Image.open(path) as image:
        return image.convert("RGB")


def readable_rows(paths: Sequence[str], on_unreadable: Literal["stop", "skip"]) -> Tensor:
    """Positions of the files that can be read, [n], int64, ascending.

    Args:
        paths: N files.
        on_unreadable: stop raises if there is any that cannot; skip leaves them out, with one warning.

    Raises:
        ConfigError: lists all files that cannot be read; or none can.
    """
    # threads: PIL decodes without holding the interpreter's lock
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        problems = list(pool.map(_problem, paths))
    bad = [f"{paths[row]} ({problem})" for row, problem in enumerate(problems) if problem is not None]
    if bad and (on_unreadable == "stop" or len(bad) == len(paths)):
        raise ConfigError(
            "\n".join(
                (f"{len(bad)} of {len(paths)} images cannot be read; replace or remove them, or use {_SKIP}:", *bad)
            )
        )
    if bad:
        logger.warning("%d of %d images cannot be read: left out.\n%s", len(bad), len(paths), "\n".join(bad))
    return torch.tensor([row for row, problem in enumerate(problems) if problem is None])


def _problem(path: str) -> str | None:
    """What is wrong with a file; None if nothing is."""
    try:
        with Image.open(path) as image:
            image.draft("RGB", (1, 1))  # JPEGs at an eighth of their size: every byte is read, few pixels are computed
            image.load()
    except _UNREADABLE as error:
        return str(error)
    return None
