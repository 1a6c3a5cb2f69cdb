"""The checkpoints folder of a run: names, what is complete, what a killed save left. Imports no torch."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

SUFFIX = ".ckpt"
LAST = f"last{SUFFIX}"
"""A link to the newest complete checkpoint."""

MARKER = "complete.json"
"""In a folder written by several processes: there once all of them have finished, with the size of every file."""

_ASIDE, _REPLACED = ".tmp", ".old"
_NAME = re.compile(r"step(\d{8,})\.ckpt")


def name_of(step: int) -> str:
    """The name of a checkpoint after that many optimizer steps."""
    return f"step{step:08d}{SUFFIX}"  # no "=": Hydra's command line could not take it back


def step_of(path: Path) -> int | None:
    """Optimizer steps of a checkpoint by its name; links are followed."""
    match = _NAME.fullmatch(path.resolve().name)
    return int(match.group(1)) if match else None


def aside(path: Path) -> Path:
    """Where a checkpoint is written before it is complete."""
    return path.with_name(path.name + _ASIDE)


def is_complete(path: Path) -> bool:
    """Whether a checkpoint is all there: a file under its own name, or a folder with its marker."""
    if path.name.endswith((_ASIDE, _REPLACED)):
        return False
    return path.is_file() or (path / MARKER).is_file()


def complete_checkpoints(folder: Path) -> dict[int, Path]:
    """Complete checkpoints of a run by optimizer step, ascending."""
    found = {}
    for path in folder.glob(f"*{SUFFIX}"):
        match = _NAME.fullmatch(path.name)
        if match and is_complete(path):
            found[int(match.group(1))] = path
    return dict(sorted(found.items()))


def newest(folder: Path) -> Path | None:
    """The complete checkpoint of the most optimizer steps, if there is any."""
    return next(reversed(complete_checkpoints(folder).values()), None)


def publish(written: Path, path: Path) -> None:
    """Gives a complete checkpoint its name, in one move; on one process.

    A folder cannot replace another one in one move: the old one is moved aside first, where `clean` finds it again.
    """
    if written.is_dir():
        flush(written)
    if path.exists() and (path.is_dir() or written.is_dir()):
        old = path.with_name(path.name + _REPLACED)
        remove(old)
        os.replace(path, old)
        os.replace(written, path)
        flush(path.parent)
        remove(old)
        return
    os.replace(written, path)
    flush(path.parent)


def point(path: Path, name: str = LAST) -> None:
    """Makes the link of that name beside a checkpoint lead to it, in one move."""
    link = aside(path.with_name(name))
    remove(link)
    link.symlink_to(path.name)
    os.replace(link, path.with_name(name))
    flush(path.parent)


def remove(path: Path) -> None:
    """Deletes a checkpoint; a folder's marker goes first, so that what is left of it after a kill is no checkpoint."""
    if path.is_dir() and not path.is_symlink():
        (path / MARKER).unlink(missing_ok=True)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def clean(folder: Path) -> list[str]:
    """Removes what a killed save left, and brings last.ckpt up to date; on one process, before any is read.

    Returns:
        Names of what was removed.
    """
    removed = []
    for path in [*folder.glob(f"*{_ASIDE}"), *folder.glob(f"*{_REPLACED}")]:
        whole = path.with_name(path.name.removesuffix(_ASIDE).removesuffix(_REPLACED))
        if path.name.endswith(_REPLACED) and (path.is_file() or (path / MARKER).is_file()) and not whole.exists():
            os.replace(path, whole)
            continue
        remove(path)
        removed.append(path.name)
    for path in folder.glob(f"step*{SUFFIX}"):
        if path.is_dir() and not is_complete(path):
            remove(path)
            removed.append(path.name)
    last = newest(folder)
    link = folder / LAST
    if last is None:
        if link.is_symlink():
            remove(link)
    elif not link.exists() or (link.is_symlink() and os.readlink(link) != last.name):
        point(last)
    return sorted(removed)


def flush(folder: Path) -> None:
    """Makes moves within a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
