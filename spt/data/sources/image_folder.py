"""Images in folders, one folder a class, as ImageNet is laid out."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from spt.config.errors import ConfigError
from spt.data.files import FileImages, readable_rows
from spt.data.images import Splits
from spt.data.listing import FilePaths, Listing, index_file, list_files, read_listing, write_listing
from spt.data.sources.missing import missing

logger = logging.getLogger(__name__)

_ENDINGS = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff")
_HOW = "Use data.source.root=FOLDER with images in FOLDER/train/CLASS/ and FOLDER/val/CLASS/."
_SPLITS = ("train", "val")


@dataclass(frozen=True)
class ImageFolder:
    """Image files of any size, decoded and cropped in workers.

    Attributes:
        root: folder that holds train/CLASS/IMAGE and val/CLASS/IMAGE.
        index: folder where lists of the files are kept between starts; auto: the user's cache folder; None lists all
            folders at every start. What has changed since is listed anew.
        reduced_decoding: JPEGs to train on are decoded at 1/2, 1/4 or 1/8 of their size where every crop keeps at least
            so many pixels a pixel of its view, along both sides; None decodes whole images.
        on_unreadable: stop: a damaged file ends the run; skip: another image takes its place in training, and none in
            evaluation.
        verify: opens every file before training, to name all damaged ones at once (minutes for a million files).
    """

    in_memory: ClassVar[bool] = False

    root: str
    index: str | None
    reduced_decoding: float | None
    on_unreadable: Literal["stop", "skip"]
    verify: bool

    def __post_init__(self) -> None:
        """Refuses an unknown word, and a number that means nothing."""
        if self.reduced_decoding is not None and self.reduced_decoding < 1:
            raise ConfigError(
                f"data.source.reduced_decoding={self.reduced_decoding} would enlarge what was decoded too small; use "
                "data.source.reduced_decoding=1 or more, or data.source.reduced_decoding=null."
            )
        if self.on_unreadable not in ("stop", "skip"):
            raise ConfigError(
                f"data.source.on_unreadable={self.on_unreadable} is unknown; use data.source.on_unreadable=stop or "
                "data.source.on_unreadable=skip."
            )

    def prepare(self) -> None:
        """Writes the index, or brings it up to date; the folders of the images are only read."""
        if self.index is None:
            return
        root = Path(self.root).expanduser()
        classes = _folders(root / "train")
        for folder in (root / split for split in _SPLITS):
            index = index_file(self.index, folder)
            try:
                _refresh(index, folder, classes)
            except OSError as error:
                logger.warning(
                    "The list of files in %s cannot be kept in %s (%s), and is made anew at every start; use "
                    "data.source.index=FOLDER for another place.",
                    folder,
                    index.parent,
                    error,
                )

    def load(self) -> Splits:
        """Both splits; a class's label is its place among the sorted names of the training folders."""
        root = Path(self.root).expanduser()
        classes = _folders(root / "train")
        train, val = (self._read(root / split, classes) for split in _SPLITS)
        return Splits(train=train, val=val, num_classes=len(classes))

    def _read(self, folder: Path, classes: list[str]) -> FileImages:
        unknown = sorted(set(_folders(folder)) - set(classes))
        if unknown:
            raise ConfigError(
                f"{folder} has classes that the training images lack: {', '.join(unknown[:10])}; remove their folders, "
                "or add training images."
            )
        listing = self._list(folder, classes)
        if not len(listing.ends):
            kinds = "|".join(_ENDINGS)
            raise missing(f"data.source.root={self.root}", files=f"{kinds} file", places=[folder], how=_HOW)
        if self.verify:
            listing = listing.of(readable_rows(FilePaths(folder, listing), self.on_unreadable))
        return FileImages(
            FilePaths(folder, listing),
            listing.labels(),
            reduced_decoding=self.reduced_decoding,
            on_unreadable=self.on_unreadable,
        )

    def _list(self, folder: Path, classes: list[str]) -> Listing:
        known = None if self.index is None else read_listing(index_file(self.index, folder), folder, _ENDINGS)
        return list_files(folder, classes, _ENDINGS, known)


def _refresh(index: Path, folder: Path, classes: list[str]) -> None:
    """Writes an index that is not up to date."""
    index.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(index.parent, os.W_OK):  # known before minutes of listing, not after them
        raise PermissionError("it is read-only")
    known = read_listing(index, folder, _ENDINGS)
    listing = list_files(folder, classes, _ENDINGS, known)
    if listing is not known:
        write_listing(index, listing, folder, _ENDINGS)


def _folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise missing(f"The folder {folder}", files="such folder", places=[folder.parent], how=_HOW)
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    if not names:
        raise missing(f"The folder {folder}", files="folder of a class", places=[folder], how=_HOW)
    return names
