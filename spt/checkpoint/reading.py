"""Checkpoints from disk, without running anything that is in them."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Iterable, Mapping
from enum import EnumMeta
from pathlib import Path
from typing import IO, NamedTuple, cast

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata

from spt.checkpoint.folder import MARKER, is_complete
from spt.checkpoint.writing import METADATA, OPTIMIZERS, REST, WEIGHTS, alone, fingerprint, flat_tensors, weight_key
from spt.config.errors import CheckpointError, ForeignCheckpointError

# of torch.distributed.checkpoint, what a list of tensors is made of
_ALLOWED = {
    "torch.distributed.checkpoint.metadata": {
        "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
        "TensorStorageMetadata", "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch": {"Size", "device"},
    "collections": {"OrderedDict"},
    "pathlib": {"Path", "PosixPath", "PurePosixPath"},
}  # fmt: skip
_DTYPES = {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


class Tensors(NamedTuple):
    """What is known of a tensor before it is read."""

    shape: torch.Size
    dtype: torch.dtype


class Stored:
    """A complete checkpoint on disk. Tensors are read when asked for.

    Args:
        path: a file, or a folder that torch.distributed.checkpoint wrote.

    Attributes:
        rest: all but the large tensors, plain data: loops, callbacks, counters, and under "run" what wrote it.
        tensors: shape and type of every large tensor by its key: `weight_key(name)` or `moment_key(...)`.

    Raises:
        CheckpointError: it is no checkpoint, is incomplete or damaged; says which file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_folder = path.is_dir()
        self._whole: dict[str, Tensor] = {}
        if self.is_folder:
            self.rest = read_plain(path / REST)
            self.tensors = _listed_tensors(path)
        else:
            content = read_plain(path)
            self._whole = flat_tensors(content)
            self.rest = {key: value for key, value in content.items() if key not in (WEIGHTS, OPTIMIZERS)}
            self.rest[OPTIMIZERS] = content.get(OPTIMIZERS, [])
            self.tensors = {key: Tensors(tensor.shape, tensor.dtype) for key, tensor in self._whole.items()}

    @property
    def weights(self) -> dict[str, Tensors]:
        """Shape and type of every weight and buffer by its name in the module."""
        prefix = weight_key("")
        return {key.removeprefix(prefix): tensor for key, tensor in self.tensors.items() if key.startswith(prefix)}

    def read(self, keys: Iterable[str]) -> dict[str, Tensor]:
        """Whole tensors in host memory. Those of a file stay on disk until they are used."""
        keys = list(keys)
        if not self.is_folder:
            return {key: self._whole[key] for key in keys}
        wanted = {key: torch.empty(self.tensors[key].shape, dtype=self.tensors[key].dtype) for key in keys}
        self.read_into(wanted)
        return wanted

    def read_weights(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Whole weights by name."""
        names = list(names)
        read = self.read(weight_key(name) for name in names)
        return {name: read[weight_key(name)] for name in names}

    def read_into(self, targets: Mapping[str, Tensor]) -> None:
        """Fills tensors, whole ones and shards, each process by itself; for folders."""
        with alone():
            dcp.load(cast("dict[str, object]", dict(targets)), storage_reader=_Reader(self.path), no_dist=True)


def open_checkpoint(path: Path, *, verify: bool = True) -> Stored:
    """A checkpoint on disk, checked to be complete and undamaged.

    Args:
        path: a file, a folder, or a link to either.
        verify: False trusts its bytes: they are not read for their checksums.

    Raises:
        CheckpointError: it is no checkpoint, is incomplete or damaged; says which file.
        ForeignCheckpointError: DeepSpeed wrote it.
    """
    if not path.exists():
        raise CheckpointError(f"{path} does not exist.")
    if path.is_dir() and not is_complete(path):
        raise CheckpointError(
            f"{path} is no complete checkpoint: it has no {MARKER}, which is written last. It was left by a run that "
            "was killed while it saved, or is another folder; use an earlier checkpoint."
        )
    if path.is_dir() and not (path / REST).is_file() and any(path.glob("*/*zero_pp_rank_*")):
        raise ForeignCheckpointError(
            f"{path} was written by DeepSpeed, which alone reads it. For one file of its weights:\n"
            f"    try: python {path}/zero_to_fp32.py {path} OUTPUT_FOLDER --tag checkpoint --safe_serialization"
        )
    if verify:
        (_verify_folder if path.is_dir() else _verify_file)(path)
    return Stored(path)


def _verify_folder(path: Path) -> None:
    try:
        files = json.loads((path / MARKER).read_text(encoding="utf-8"))["files"]
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{path / MARKER} is damaged; use an earlier checkpoint.") from None
    for name, expected in files.items():
        file = path / name
        if not file.is_file():
            raise CheckpointError(f"{path} lacks {name}: copy it again, or use an earlier one.")
        found = fingerprint(file)
        if found != expected:
            what = f"has {found[0]} bytes of {expected[0]}" if found[0] != expected[0] else "has another checksum"
            raise CheckpointError(f"{file} is damaged: it {what}; copy it again, or use an earlier checkpoint.")


def _verify_file(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise CheckpointError(
            f"{path} is damaged, or is no file of torch.save ({error}); copy it again, or use an earlier checkpoint."
        ) from None
    if bad is not None:
        raise CheckpointError(
            f"{path} is damaged: its record {bad} has another checksum; copy it again, or use an earlier checkpoint."
        )


def read_plain(path: Path) -> dict[str, object]:
    """What torch.save wrote, if it is plain data: tensors, numbers, strings, lists, dicts. Tensors stay on disk.

    Raises:
        CheckpointError: it holds something else, which would have to be run to be read.
    """
    try:
        content = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds more than plain data, and reading it would run code of its author: "
            f"{' '.join(str(error).split())[:200]}. Only checkpoints of this project and files of tensors are read."
        ) from None
    except (RuntimeError, EOFError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}.") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds a {type(content).__name__}, and a checkpoint is a dict.")
    return content


class _Unpickler(pickle.Unpickler):
    """Reads torch's list of tensors, and refuses every class that such a list has no use for."""

    def find_class(self, module: str, name: str) -> object:
        """A class or function of the list of allowed ones."""
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if name in _ALLOWED.get(module, ()):
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):  # how some versions of Python write a member of an enumeration
            return _member
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _member(owner: object, name: str) -> object:
    """A member of an enumeration, where `getattr` would give anything of any class."""
    if isinstance(owner, EnumMeta) and name in owner.__members__:
        return owner.__members__[name]
    raise pickle.UnpicklingError(f"it names {name} of {owner}")


class _Reader(dcp.FileSystemReader):
    """torch's reader of folders, whose list of tensors is a pickle that could name any function."""

    def read_metadata(self, *args: object, **kwargs: object) -> Metadata:
        """The list, read without running anything."""
        metadata = _read_metadata(Path(self.path))
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


def _read_metadata(folder: Path) -> Metadata:
    path = folder / METADATA
    try:
        with path.open("rb") as file:
            metadata = _Unpickler(cast("IO[bytes]", file)).load()
    except (pickle.UnpicklingError, EOFError, OSError, AttributeError, IndexError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from None
    if not isinstance(metadata, Metadata):
        raise CheckpointError(f"{path} is no list of tensors.")
    return metadata


def _listed_tensors(folder: Path) -> dict[str, Tensors]:
    entries = _read_metadata(folder).state_dict_metadata
    strange = [key for key, entry in entries.items() if not isinstance(entry, TensorStorageMetadata)]
    if strange:
        raise CheckpointError(f"{folder / METADATA} lists what is no tensor: {', '.join(strange[:5])}.")
    return {
        key: Tensors(entry.size, entry.properties.dtype)
        for key, entry in entries.items()
        if isinstance(entry, TensorStorageMetadata)
    }
