"""Which files a folder of class folders holds, kept in an index file from one start to the next."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, overload
from uuid import uuid4
from zlib import crc32

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

# N files, C classes

AUTO = "auto"
_FORMAT = "spt file listing 1"
_ABSENT, _UNSETTLED = (0, 0), (-1, -1)  # no folder; one that may still change within the same tick of its clock
_SETTLED_AFTER = 2 * 10**9  # nanoseconds: the coarsest clock of a file system in use


class Listing(NamedTuple):
    """The files of all class folders in order, without a Python object a file.

    Attributes:
        classes: names of the folders, in the order of their labels.
        stamps: [C, 2], int64, when each folder's content and its entry changed, in nanoseconds.
        counts: [C], int64, files in each.
        names: [bytes], uint8, the files' names, one after the other.
        ends: [N], int64, where each name ends.
    """

    classes: list[str]
    stamps: Tensor
    counts: Tensor
    names: Tensor
    ends: Tensor

    def labels(self) -> Tensor:
        """[N], int64."""
        return torch.repeat_interleave(self.counts)

    def of(self, rows: Tensor) -> Listing:
        """Some of the files, by their positions in ascending order."""
        is_kept = torch.zeros(len(self.ends), dtype=torch.bool)
        is_kept[rows] = True
        lengths = self.ends.diff(prepend=torch.tensor([0]))
        return self._replace(
            counts=self.labels()[rows].bincount(minlength=len(self.classes)),
            names=self.names[is_kept.repeat_interleave(lengths)],
            ends=lengths[is_kept].cumsum(0),
        )


class FilePaths(Sequence[str]):
    """Paths that are put together when they are asked for: a few tensors, which data workers share, not N strings.

    Args:
        folder: holds the class folders.
        listing: what is in them.
    """

    def __init__(self, folder: Path, listing: Listing) -> None:
        self._folders = [str(folder / name) for name in listing.classes]
        self._names, self._ends = listing.names, listing.ends
        self._folder_ends = listing.counts.cumsum(0)  # [C]

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        """The path of a file; a list of them for a slice."""
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(len(self)))]
        place = range(len(self))[row]  # an IndexError ends loops
        start = int(self._ends[place - 1]) if place > 0 else 0
        name = self._names[start : int(self._ends[place])].numpy().tobytes()
        folder = self._folders[int(torch.searchsorted(self._folder_ends, place, right=True))]
        return os.path.join(folder, os.fsdecode(name))


def list_files(folder: Path, classes: list[str], endings: tuple[str, ...], known: Listing | None) -> Listing:
    """The files of every class, those of a class sorted by name; folders that have not changed come from `known`.

    A file that is added, removed or renamed changes the times of its folder, so that no file need be looked at.

    Args:
        folder: holds the class folders.
        classes: their names, in the order of their labels; one that is not there has no files.
        endings: of the files' names, in lower case.
        known: an earlier listing; returned itself if nothing has changed. None lists every folder.
    """
    stamps = [_stamp(folder / name) for name in classes]
    parts = {} if known is None else _unchanged(known, dict(zip(classes, stamps, strict=True)))
    if known is not None and known.classes == classes and len(parts) == len(classes):
        return known
    for name, stamp in zip(classes, stamps, strict=True):
        if name not in parts:
            parts[name] = _list_class(folder / name, stamp, endings)
    names, lengths = zip(*(parts[name] for name in classes), strict=True)
    return Listing(
        classes=list(classes),
        stamps=torch.tensor(stamps, dtype=torch.int64),
        counts=torch.tensor([len(part) for part in lengths]),
        names=torch.cat(names),
        ends=torch.cat(lengths).cumsum(0),
    )


class _Part(NamedTuple):
    """The files of one class: their names in bytes, one after the other, and the bytes of each."""

    names: Tensor
    lengths: Tensor


def _unchanged(known: Listing, stamps: dict[str, tuple[int, int]]) -> dict[str, _Part]:
    """The classes whose folders are as they were."""
    lengths = known.ends.diff(prepend=torch.tensor([0])).split(known.counts.tolist())
    sizes = [int(part.sum()) for part in lengths]
    parts = zip(known.classes, known.stamps.tolist(), known.names.split(sizes), lengths, strict=True)
    return {
        name: _Part(names, ends)
        for name, stamp, names, ends in parts
        if stamps.get(name, _UNSETTLED) != _UNSETTLED and list(stamps[name]) == stamp
    }


def _list_class(folder: Path, stamp: tuple[int, int], endings: tuple[str, ...]) -> _Part:
    found: list[str] = []
    if stamp != _ABSENT and folder.is_dir():
        with os.scandir(folder) as entries:
            found = sorted(entry.name for entry in entries if entry.name.lower().endswith(endings))
    encoded = [os.fsencode(name) for name in found]
    names = np.frombuffer(b"".join(encoded), dtype=np.uint8).copy()
    return _Part(torch.from_numpy(names), torch.tensor([len(name) for name in encoded], dtype=torch.int64))


def _stamp(folder: Path) -> tuple[int, int]:
    """When a folder's content and its entry changed; a value that matches no other if that was just now."""
    now = time.time_ns()
    try:
        status = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return _ABSENT
    stamp = status.st_mtime_ns, status.st_ctime_ns
    return stamp if max(stamp) < now - _SETTLED_AFTER else _UNSETTLED


def index_file(index: str, folder: Path) -> Path:
    """Where the listing of a folder is kept.

    Args:
        index: folder of index files; auto: in the user's cache folder.
        folder: holds the class folders.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spt-ssl" / "listings"
    whole = folder.expanduser().resolve()
    name = f"{whole.parent.name}-{whole.name}-{sha256(os.fsencode(whole)).hexdigest()[:16]}.safetensors"
    return (cache if index == AUTO else Path(index).expanduser()) / name


def write_listing(index: Path, listing: Listing, folder: Path, endings: tuple[str, ...]) -> None:
    """Replaces an index in one move: a reader, or a second writer, meets the old one or the new one.

    Raises:
        OSError: its folder cannot be made or written to.
    """
    tensors = dict(zip(_TENSORS, listing[1:], strict=True))
    metadata = {**_description(folder, endings), "classes": json.dumps(listing.classes), "check": _check(tensors)}
    index.parent.mkdir(parents=True, exist_ok=True)
    aside = index.with_name(f".{index.name}.{uuid4().hex}")  # several machines may share the folder
    try:
        aside.write_bytes(save(tensors, metadata))
        os.replace(aside, index)
    finally:
        aside.unlink(missing_ok=True)


def read_listing(index: Path, folder: Path, endings: tuple[str, ...]) -> Listing | None:
    """What an index holds; None when there is none, it is damaged, or of another folder or other kinds of files."""
    expected = _description(folder, endings)
    try:
        with safe_open(index, framework="pt") as opened:
            metadata = opened.metadata() or {}
            # copies: a file that is mapped and then lost by a file server ends the process
            tensors = {name: opened.get_tensor(name).clone() for name in _TENSORS}
        if {**metadata, **expected, "check": _check(tensors)} != metadata:
            return None
        return Listing(json.loads(metadata["classes"]), **tensors)
    except (OSError, SafetensorError, KeyError, ValueError):
        return None


_TENSORS = Listing._fields[1:]


def _description(folder: Path, endings: tuple[str, ...]) -> dict[str, str]:
    """What an index must say to be of use."""
    return {"format": _FORMAT, "folder": json.dumps(str(folder.expanduser().resolve())), "endings": json.dumps(endings)}


def _check(tensors: dict[str, Tensor]) -> str:
    """A number that a damaged byte changes."""
    check = 0
    for tensor in tensors.values():
        check = crc32(tensor.contiguous().numpy().tobytes(), check)
    return str(check)
