"""What a run told wandb, read back from its offline file: wandb 0.31 brings no reader of its own."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from wandb.proto import wandb_internal_pb2

_BLOCK, _HEADER = 32768, 7  # bytes; a log of blocks, as LevelDB writes it
_FULL, _FIRST = 1, 2  # kinds of a chunk; 3 goes on, 4 ends


@dataclass
class Told:
    """One offline file.

    Attributes:
        starts: run records; a file has one.
        config: nested, as the service would show it.
        history: rows, each a mapping of names to values.
        exits: exit codes.
        is_preempted: the run said so.
        files: paths that it names.
    """

    starts: list[wandb_internal_pb2.RunRecord] = field(default_factory=list)
    config: dict[str, object] = field(default_factory=dict)
    history: list[dict[str, object]] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)
    is_preempted: bool = False
    files: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """Of everything that was logged, "stage/name"."""
        # media spread over "name.path", "name.size" and so on
        return {name.partition(".")[0] for row in self.history for name in row if "/" in name}

    def steps(self, name: str = "trainer/global_step") -> list[int]:
        """Values of the x axis, row by row."""
        return [int(cast(float, row[name])) for row in self.history]


def offline_files(folder: Path) -> list[Path]:
    """Those of a run folder, in the order of their starts."""
    return sorted((folder / "wandb").glob("offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_ctime_ns)


def read(path: Path) -> Told:
    """Everything that a file holds."""
    told = Told()
    for data in _records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            told.starts.append(record.run)
            _update(told.config, record.run.config)
        elif kind == "config":
            _update(told.config, record.config)
        elif kind == "history":
            items = record.history.item
            told.history.append({item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items})
        elif kind == "exit":
            told.exits.append(record.exit.exit_code)
        elif kind == "preempting":
            told.is_preempted = True
        elif kind == "files":
            told.files += [file.path for file in record.files.files]
    told.config.pop("_wandb", None)
    return told


def _update(config: dict[str, object], change: wandb_internal_pb2.ConfigRecord) -> None:
    for item in change.update:
        config[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)


def _records(content: bytes) -> Iterator[bytes]:
    assert content[:4] == b":W&B"
    position, begun = _HEADER, b""
    while position + _HEADER <= len(content):
        left = _BLOCK - position % _BLOCK
        if left < _HEADER:
            position += left
            continue
        checksum, length, kind = struct.unpack("<IHB", content[position : position + _HEADER])
        data = content[position + _HEADER : position + _HEADER + length]
        if len(data) < length:
            return  # cut short by a kill
        assert zlib.crc32(data, zlib.crc32(bytes([kind]))) & 0xFFFFFFFF == checksum
        position += _HEADER + length
        begun = data if kind in (_FULL, _FIRST) else begun + data
        if kind in (_FULL, 4):
            yield begun
