"""Images in files, and what happens to those that cannot be read."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import torch
from PIL import Image
from torch import Tensor

from spt.config.errors import ConfigError
from spt.data.images import Cropper, Key, stacked
from spt.types import Sample
from spt.views.reduced import Box

# N images of the set, B images per device

logger = logging.getLogger(__name__)

_Read = TypeVar("_Read")

_UNREADABLE = (OSError, ValueError, SyntaxError)  # what PIL raises for absent, foreign, cut-off and garbled files
_SKIP = "data.source.on_unreadable=skip"


class FileImages:
    """Images of any size in files; data workers decode them and cut their views.

    Args:
        paths: N files.
        labels: [N], int64.
        reduced_decoding: JPEGs to train on are decoded at 1/2, 1/4 or 1/8 of their size where every crop keeps at least
            so many pixels a pixel of its view, along both sides; None decodes whole images.
        on_unreadable: stop raises; skip takes the next readable file in training, and counts nothing in evaluation.
    """

    def __init__(
        self,
        paths: Sequence[str],
        labels: Tensor,
        *,
        reduced_decoding: float | None,
        on_unreadable: Literal["stop", "skip"],
    ) -> None:
        self.paths = paths
        self.labels = labels
        self.reduced_decoding = reduced_decoding
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
        epochs, indices = torch.tensor(keys).unbind(dim=1)  # [B], [B]
        rows, views = [], []
        for key, draws in zip(keys, cropper.draws(epochs, indices), strict=True):
            if self.reduced_decoding is None:
                row, image = self._read_nearby(key.row, decode)
                views.append(cropper.crop(image, draws))
            else:
                reading = partial(decode_reduced, draws, cropper, self.reduced_decoding)
                row, reduced = self._read_nearby(key.row, reading)
                views.append(cropper.cut(*reduced))
            rows.append(row)
        return Sample(stacked(views), self.labels[rows], indices.contiguous(), epochs.contiguous())

    def evaluation_sample(self, keys: list[Key], cropper: Cropper | None) -> Sample:
        """Sample with one [B, 3, S, S], the evaluated view; the index of a file that is skipped is -1.

        Raises:
            ConfigError: names the file that cannot be read, unless it may be skipped.
        """
        assert cropper is not None, "files differ in size: a cropper must be attached"
        rows, indices, views = [], [], []
        for key in keys:
            # whole: figures are compared with those of other codes
            row, image = self._read_nearby(max(key.row, 0), decode)
            rows.append(row)
            indices.append(key.row if row == key.row else -1)
            views.append(cropper.evaluation_crop_of(image))
        epochs = torch.tensor([key.epoch for key in keys])
        return Sample([torch.stack(views)], self.labels[rows], torch.tensor(indices), epochs)

    def _read_nearby(self, index: int, read: Callable[[str], _Read]) -> tuple[int, _Read]:
        """What is read of the image, or of the next one that can be if this one may be skipped; its row comes first."""
        for step in range(len(self.paths)):
            row = (index + step) % len(self.paths)
            try:
                return row, read(self.paths[row])
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


class Reduced(NamedTuple):
    """An image that may have been decoded at a fraction of its size.

    Attributes:
        image: in three channels.
        boxes: of its crops, in pixels of the whole image.
        reduction: pixels of the whole image a decoded one, along both sides.
    """

    image: Image.Image
    boxes: list[Box]
    reduction: int


def decode_reduced(draws: Tensor, cropper: Cropper, pixel_ratio: float, path: str) -> Reduced:
    """The image at the smallest size that leaves its crops enough pixels; whole if it is no JPEG.

    Args:
        draws: of the image.
        cropper: says from these where its crops lie.
        pixel_ratio: decoded pixels a pixel of a view that must be left.
        path: of the file.
    """
    with Image.open(path) as image:  # reads the size alone
        boxes = cropper.boxes(image.height, image.width, draws)
        reduction = cropper.largest_reduction(boxes, pixel_ratio)
        size = image.width // reduction, image.height // reduction
        if reduction > 1 and image.draft(None, size) is None:
            reduction = 1
        return Reduced(image.convert("RGB"), boxes, reduction)


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
