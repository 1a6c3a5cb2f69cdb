"""What a checkpoint, a run's checkpoints or a file of weights hold, in lines for a person. Nothing in them is run."""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from spt.checkpoint.folder import MARKER, SUFFIX, complete_checkpoints, is_complete
from spt.checkpoint.origin import Origin, evaluated_network, origin
from spt.checkpoint.progress import RUN
from spt.checkpoint.reading import Stored, Tensors, open_checkpoint, read_plain
from spt.checkpoint.resume import CHECKPOINTS, is_run_folder
from spt.checkpoint.writing import WEIGHTS
from spt.config.errors import CheckpointError, ForeignCheckpointError

_MIB = 2**20
_NETWORK = re.compile(r"state_dict\.method\.networks\.(student|teacher)\.(?:(backbone|head)\.)?")
_REST = re.compile(r"state_dict\.(?:method\.)?(\w+)")
_MOMENT = re.compile(r"optimizer\.(\d+)\..*\.(\w+)")
_NAMES = {str(dtype).removeprefix("torch."): dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
_CODES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}  # fmt: skip


class Findings(NamedTuple):
    """What was found.

    Attributes:
        lines: to be read.
        is_complete: everything is there and undamaged.
    """

    lines: list[str]
    is_complete: bool


def inspect(path: Path) -> Findings:
    """Looks into a checkpoint (file or folder), a run folder, a safetensors file or any file of torch.save.

    Raises:
        CheckpointError: there is nothing there, or it holds more than plain data.
    """
    if not path.exists():
        raise CheckpointError(f"{path} does not exist.")
    if is_run_folder(path):
        return _run(path)
    if path.suffix == ".safetensors":
        return _safetensors(path)
    if path.is_file() and is_complete(path):
        if program := _program(path):
            return Findings(_title(path, program), is_complete=True)
        try:
            content = read_plain(path)
        except CheckpointError as error:
            return Findings([str(path), f"not complete, or not readable: {error}"], is_complete=False)
        if WEIGHTS not in content or RUN not in content:
            lines = [*_title(path, "a file of torch.save, of no run of this project"), "", *_foreign(content)]
            return Findings(lines, is_complete=True)
    try:
        stored = open_checkpoint(path)
    except ForeignCheckpointError as error:
        return Findings([str(path), f"complete, but {error}"], is_complete=True)
    except CheckpointError as error:
        return Findings([str(path), f"not complete: {error}"], is_complete=False)
    return Findings(_checkpoint(stored), is_complete=True)


def _run(folder: Path) -> Findings:
    files = sorted(path for path in (folder / CHECKPOINTS).glob(f"*{SUFFIX}*") if not path.is_symlink())
    links = [path for path in (folder / CHECKPOINTS).glob(f"*{SUFFIX}") if path.is_symlink()]
    if not files:
        return Findings([str(folder), "a run folder without checkpoints"], is_complete=False)
    lines = [str(folder), f"a run folder with {len(files)} checkpoints"]
    for path in files:
        state = "complete" if is_complete(path) else "NOT COMPLETE"
        also = [link.name for link in links if link.resolve() == path.resolve()]
        lines.append(f"  {path.name:<24}{_bytes(path) / _MIB:>10.1f} MiB  {', '.join([state, *also])}")
    last = list(complete_checkpoints(folder / CHECKPOINTS).values())[-1:]
    if not last:
        return Findings([*lines, "none of them is complete"], is_complete=False)
    newest = inspect(last[0])
    return Findings([*lines, "", "the newest complete one:", "", *newest.lines], newest.is_complete)


def _checkpoint(stored: Stored) -> list[str]:
    known = origin(stored)
    kind = f"a folder with {MARKER}" if stored.is_folder else "one file"
    lines = _title(stored.path, f"a checkpoint in {kind}, complete, every checksum as it should be")
    lines += _told(known)
    try:
        evaluated = evaluated_network(stored)
    except CheckpointError:  # a method that is not installed here; all else can be told
        evaluated = None
    parts: dict[str, list[Tensors]] = defaultdict(list)
    for key, tensor in stored.tensors.items():
        parts[_part(key, evaluated)].append(tensor)
    return [*lines, "", *_table(parts)]


def _told(known: Origin) -> list[str]:
    choices = [f"{group} {known.choices.get(group, '?')}" for group in ("method", "backbone", "data")]
    processes = "1 process" if known.world_size == 1 else f"{known.world_size} processes"
    scores = [f"{name} {value:.4g}" for name, value in sorted(known.metrics.items()) if name.startswith("val/")]
    return [
        ", ".join(choices),
        f"step {known.step} of {known.total_steps}, epoch {known.epoch}",
        f"written by {processes}, strategy {known.choices.get('strategy', '?')}, "
        f"precision {known.choices.get('precision', '?')}",
        f"versions {', '.join(f'{name} {version}' for name, version in known.versions.items())}",
        f"metrics {', '.join(scores) or 'none: it was written before an evaluation'}",
    ]


def _part(key: str, evaluated: str | None) -> str:
    """The row of the table that a tensor belongs to."""
    if network := _NETWORK.match(key):
        name, part = network.groups()
        mark = " (evaluated)" if part != "head" and name == evaluated else ""
        return f"{name} {part or 'network'}{mark}"
    if moment := _MOMENT.fullmatch(key):
        return f"optimizer {moment.group(1)} {moment.group(2)}"
    rest = _REST.match(key)
    return rest.group(1) if rest else key


def _safetensors(path: Path) -> Findings:
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping
            tensors = {
                name: Tensors(torch.Size(part.get_shape()), _NAMES[_CODES[part.get_dtype()]])
                for name, part in slices.items()
            }
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        return Findings([str(path), f"not complete: {error}"], is_complete=False)
    parts: dict[str, list[Tensors]] = defaultdict(list)
    for name, tensor in tensors.items():
        parts[name.partition(".")[0]].append(tensor)
    told = [f"{name:<12} {value}" for name, value in metadata.items()]
    return Findings([*_title(path, "a safetensors file, complete"), *told, "", *_table(parts)], is_complete=True)


def _program(path: Path) -> str | None:
    """What kind of program a file is, if it is one; it is not loaded."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if any("/code/" in name for name in names):
        return "a TorchScript program, for torch.jit.load"
    return "a program for torch.export.load" if any(name.endswith("archive_format") for name in names) else None


def _foreign(content: Mapping[str, object]) -> list[str]:
    parts: dict[str, list[Tensors]] = defaultdict(list)
    others = []
    for key, value in content.items():
        tensors = list(_tensors(value))
        if tensors:
            parts[key.split(".")[0] if isinstance(value, Tensor) else key] += tensors
        else:
            others.append(f"{key} ({type(value).__name__})")
    return [*_table(parts), *([f"besides: {', '.join(others)}"] if others else [])]


def _tensors(value: object) -> Iterable[Tensors]:
    if isinstance(value, Tensor):
        yield Tensors(value.shape, value.dtype)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _tensors(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _tensors(inner)


def _table(parts: Mapping[str, list[Tensors]]) -> list[str]:
    lines = [f"{'part':<28}{'tensors':>9}{'numbers':>16}{'MiB':>10}  types"]
    for name, tensors in [*parts.items(), ("all", [tensor for part in parts.values() for tensor in part])]:
        numbers = sum(tensor.shape.numel() for tensor in tensors)
        size = sum(tensor.shape.numel() * tensor.dtype.itemsize for tensor in tensors) / _MIB
        types = ", ".join(sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors}))
        lines.append(f"{name:<28}{len(tensors):>9}{numbers:>16,}{size:>10.1f}  {types}")
    return lines


def _title(path: Path, kind: str) -> list[str]:
    return [str(path), f"{kind}, {_bytes(path) / _MIB:.1f} MiB on disk"]


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
