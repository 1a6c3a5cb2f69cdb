"""Checkpoints to disk: a file by one process or a folder by all, whole or not at all."""

from __future__ import annotations

import copy
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor

from spt.checkpoint.background import BackgroundWriter
from spt.checkpoint.folder import MARKER, aside, publish, remove
from spt.checkpoint.state import Entry, whole_on_first
from spt.checkpoint.together import process, together
from spt.config.errors import CheckpointError

WEIGHTS, OPTIMIZERS = "state_dict", "optimizer_states"
"""Keys of a checkpoint that hold tensors of the size of the networks, as Lightning names them."""

REST = "rest.pt"
"""In a folder: all that is not one of those tensors."""

METADATA = ".metadata"
"""In a folder: torch's list of what lies where."""

_CHUNK = 2**24  # bytes read at once

Result = TypeVar("Result")


def write_file(content: Mapping[str, object], path: Path, writer: BackgroundWriter | None = None) -> None:
    """Writes one file on the first process; called by all of them, since shards are gathered.

    Args:
        content: of the checkpoint.
        path: the file.
        writer: does it beside training, on a copy; `finish_writing` waits for it.

    Raises:
        CheckpointError: on every process, when the file could not be written; what was there before is still there.
    """
    copies = writer is not None
    rest = {key: value for key, value in content.items() if key not in (WEIGHTS, OPTIMIZERS)}
    whole = {
        **(copy.deepcopy(rest) if copies else rest),
        WEIGHTS: _gathered(cast("Mapping[str, Tensor]", content[WEIGHTS]), copies=copies),
        OPTIMIZERS: [_gathered_optimizer(state, copies=copies) for state in _optimizers(content)],
    }
    if writer is None:
        _write(lambda: _write_one(whole, path), path, on_first=True)
    elif process() == 0:
        writer.hand_over(lambda: _write_one(whole, path))


def finish_writing(writer: BackgroundWriter, path: Path) -> None:
    """Waits for what is written beside training; called by all processes.

    Args:
        writer: used on the first process.
        path: of the checkpoint that it was given last.

    Raises:
        CheckpointError: on every process, when it could not be written; what was there before is still there.
    """
    _write(writer.wait, path, on_first=True)


def _write_one(content: Mapping[str, object], path: Path) -> None:
    written = _fresh(path)
    save(content, written)
    publish(written, path)


def write_folder(content: Mapping[str, object], path: Path) -> None:
    """Writes a folder with torch.distributed.checkpoint, every process its shards.

    Raises:
        CheckpointError: on every process, when one of them could not write; what was there before is still there.
    """
    written = aside(path)
    _write(lambda: _fresh(path).mkdir(parents=True), path, on_first=True)
    _write(lambda: _write_shards(content, written), path)
    prints = _write(lambda: _own_fingerprints(written), path)
    files = {name: value for part in prints if part is not None for name, value in part.items()}
    _write(lambda: _finish_folder(content, written, path, files), path, on_first=True)


def _write(act: Callable[[], Result], path: Path, *, on_first: bool = False) -> list[Result | None]:
    """`together`, with nothing left behind when it fails, and what to do about it."""
    try:
        return together(act, "written", path, on_first=on_first)
    except CheckpointError as error:
        if process() == 0:
            remove(aside(path))
        raise CheckpointError(
            f"{error} Checkpoints before it are complete and untouched.\n"
            f"    try: make room there, then resume={path.parent.parent}"
        ) from None


def _own_fingerprints(folder: Path) -> dict[str, list[int]]:
    return {file.name: fingerprint(file) for file in sorted(folder.glob(f"__{process()}_*"))}


def _write_shards(content: Mapping[str, object], folder: Path) -> None:
    tensors = flat_tensors(content)
    writer = dcp.FileSystemWriter(folder, single_file_per_rank=True, sync_files=True, overwrite=False)
    with alone():
        dcp.save(cast("dict[str, object]", tensors), storage_writer=writer, no_dist=not dist.is_initialized())


@contextmanager
def alone() -> Iterator[None]:
    """Silences torch's remark that a process reads or writes by itself, which is meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
        yield


def _finish_folder(content: Mapping[str, object], written: Path, path: Path, files: dict[str, list[int]]) -> None:
    save(without_tensors(content), written / REST)
    files = {**files, **{name: fingerprint(written / name) for name in (REST, METADATA)}}
    _mark(written, {"files": files})
    publish(written, path)


def complete_folder(written: Path, path: Path, extra: Mapping[str, object]) -> None:
    """Marks a folder that something else has written, and gives it its name; on one process.

    Args:
        written: the folder.
        path: its name.
        extra: what else the marker says, plain.
    """
    files = {str(file.relative_to(written)): fingerprint(file) for file in sorted(written.rglob("*")) if file.is_file()}
    _mark(written, {"files": files, **extra})
    publish(written, path)


def _mark(folder: Path, content: Mapping[str, object]) -> None:
    marker = folder / MARKER
    marker.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    with marker.open("rb") as file:
        os.fsync(file.fileno())


def save(content: Mapping[str, object], path: Path) -> None:
    """torch.save that is on the disk when it returns, and whose errors are the system's."""
    with path.open("wb") as file:  # given a path, torch would write by itself and say less about a full disk
        torch.save(dict(content), file)
        file.flush()
        os.fsync(file.fileno())


def fingerprint(path: Path) -> list[int]:
    """[bytes, CRC-32] of a file."""
    size = checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
    return [size, checksum]


def flat_tensors(content: Mapping[str, object]) -> dict[str, Tensor]:
    """The tensors that are divided over processes: weights, and what optimizers keep for each of their numbers."""
    weights = cast("Mapping[str, Tensor]", content[WEIGHTS])
    tensors = {weight_key(name): tensor for name, tensor in weights.items()}
    for index, state in enumerate(_optimizers(content)):
        for name, entry in cast("Mapping[str, Entry]", state["state"]).items():
            for key, value in entry.items():
                if is_large(value):
                    tensors[moment_key(index, name, key)] = cast(Tensor, value)
    return tensors


def without_tensors(content: Mapping[str, object]) -> dict[str, object]:
    """The content without what `flat_tensors` gives."""
    optimizers = []
    for state in _optimizers(content):
        entries = cast("Mapping[str, Entry]", state["state"])
        small = {
            name: {key: value for key, value in entry.items() if not is_large(value)} for name, entry in entries.items()
        }
        optimizers.append({**state, "state": small})
    return {**{key: value for key, value in content.items() if key != WEIGHTS}, OPTIMIZERS: optimizers}


def is_large(value: Tensor | float) -> bool:
    """Whether an optimizer's value is a tensor of a parameter's numbers rather than a counter."""
    return isinstance(value, Tensor) and value.ndim > 0


def weight_key(name: str) -> str:
    """The name in a folder of a weight."""
    return f"{WEIGHTS}.{name}"


def moment_key(index: int, name: str, key: str) -> str:
    """The name in a folder of what optimizer `index` keeps for parameter `name` under `key`."""
    return f"optimizer.{index}.{name}.{key}"


def _gathered(tensors: Mapping[str, Tensor], *, copies: bool) -> dict[str, Tensor]:
    """Whole copies in host memory on the first process; nothing on the others."""
    whole = {name: whole_on_first(tensor, is_first=process() == 0, copies=copies) for name, tensor in tensors.items()}
    return {name: tensor for name, tensor in whole.items() if tensor is not None}


def _gathered_optimizer(state: Mapping[str, object], *, copies: bool) -> dict[str, object]:
    entries = cast("Mapping[str, Entry]", state["state"])
    gathered: dict[str, Entry] = {}
    for name, entry in entries.items():
        tensors = _gathered({key: value for key, value in entry.items() if isinstance(value, Tensor)}, copies=copies)
        gathered[name] = {**{key: value for key, value in entry.items() if not isinstance(value, Tensor)}, **tensors}
    return {**state, "state": gathered}


def _optimizers(content: Mapping[str, object]) -> list[Mapping[str, object]]:
    return cast("list[Mapping[str, object]]", content.get(OPTIMIZERS, []))


def _fresh(path: Path) -> Path:
    """The place to write to, with nothing there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = aside(path)
    remove(written)
    return written
