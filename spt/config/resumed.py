"""What a run goes on from, as far as names and YAML tell: no checkpoint is read, and no torch imported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from spt.checkpoint.folder import complete_checkpoints, is_complete, step_of
from spt.checkpoint.resume import AUTO, CHECKPOINTS, checkpoint_to_resume, is_run_folder
from spt.config.errors import ConfigError
from spt.config.interpolations import flatten
from spt.config.tree import Plain

# of a run's own command line, what its next start does not take over
_NOT_TAKEN_OVER = ("resume", "trust", "hydra.run.dir")
_PLAIN_WORD = re.compile(r"[\w./:@%+-]+")


class Change(NamedTuple):
    """A key whose value is another one than when the checkpoint was written.

    Attributes:
        key: dotted.
        before: its value then; None also where there was no such key.
        now: its value now; None also where there is no such key.
        is_new: there was no such key.
    """

    key: str
    before: Plain
    now: Plain
    is_new: bool = False


class Resumed(NamedTuple):
    """What a run goes on from.

    Attributes:
        path: the checkpoint; None for a fresh start.
        missing: what was named, if there is no such thing.
        incomplete: the checkpoint that was named, if it is not whole.
        step: optimizer steps in it, if its name tells.
        later: a checkpoint of more steps in this run's folder, which the run would not replace.
        changes: of the config since then.
    """

    path: Path | None = None
    missing: str | None = None
    incomplete: str | None = None
    step: int | None = None
    later: str | None = None
    changes: tuple[Change, ...] = ()


def read_resumed(resume: str | None, run_folder: Path, config: Mapping[str, Plain]) -> Resumed:
    """What `resume` leads to.

    Args:
        resume: the key's value.
        run_folder: of the run that is about to start.
        config: of that run, resolved.
    """
    if resume is None:
        return Resumed()
    named = Path(resume).expanduser()
    if resume != AUTO:
        if not named.exists() or (is_run_folder(named) and not complete_checkpoints(named / CHECKPOINTS)):
            return Resumed(missing=resume)
        if not is_run_folder(named) and not is_complete(named):
            return Resumed(incomplete=resume)
    path = checkpoint_to_resume(resume, run_folder)
    if path is None:
        return Resumed()
    step = step_of(path)
    own = complete_checkpoints(run_folder / CHECKPOINTS)
    later = next((str(own[other]) for other in own if step is not None and other > step), None)
    return Resumed(path, step=step, later=later, changes=tuple(changes_since(path.parent.parent, run_folder, config)))


def changes_since(before: Path, now: Path, config: Mapping[str, Plain]) -> Iterator[Change]:
    """Keys that differ from those of an earlier run, by name; none when that run left no config.

    Args:
        before: its folder.
        now: the folder of this run; paths into either are the same.
        config: of this run, resolved.
    """
    file = before / "config_resolved.yaml"
    if not file.is_file():
        return
    recorded = flatten(yaml.safe_load(file.read_text(encoding="utf-8")))
    ours = flatten(dict(config))
    for key in sorted(recorded.keys() | ours.keys()):
        if key.split(".")[0] in ("hydra", "resume", "sweep", "trust"):
            continue
        old, new = recorded.get(key), ours.get(key)
        if isinstance(old, (dict, list)) or isinstance(new, (dict, list)):
            continue  # their children tell
        if isinstance(old, str):
            old = old.replace(str(before.resolve()), str(now.resolve()))
        if old != new:
            yield Change(key, old, new, is_new=key not in recorded)


def expanded(words: Sequence[str]) -> list[str]:
    """A command line with resume=<run folder> spelt out: what that run was started with, its folder, then the words.

    Raises:
        ConfigError: the folder does not say how its run was started, or the words contradict it.
    """
    named = next((word.partition("=")[2].strip("'\"") for word in words if word.startswith("resume=")), None)
    if named is None or named in (AUTO, "null", "") or not is_run_folder(Path(named).expanduser()):
        return list(words)
    folder = Path(named).expanduser().resolve()
    typed = {_key(word) for word in words}
    if {"-m", "--multirun"} & set(words):
        raise ConfigError(
            f"resume={named} is one run, and -m starts several.\n    try: python train.py resume={named}, without -m"
        )
    if "hydra.run.dir" in typed:
        raise ConfigError(
            f"resume={named} goes on in that folder, so hydra.run.dir cannot name another one.\n"
            f"    try: resume={folder}/{CHECKPOINTS}/last.ckpt, which starts a run of its own from there"
        )
    file = folder / ".hydra" / "overrides.yaml"
    if not file.is_file():
        raise ConfigError(
            f"resume={named} does not say how its run was started: there is no {file}.\n"
            f"    try: the run's own words with resume=auto hydra.run.dir={named}"
        )
    saved = [str(word) for word in yaml.safe_load(file.read_text(encoding="utf-8")) or []]
    kept = [word for word in saved if _key(word) not in typed and _key(word) not in _NOT_TAKEN_OVER]
    return [*kept, *words, f"hydra.run.dir={_quoted(str(folder))}"]


def _key(word: str) -> str:
    """The key or group that a word is about."""
    return word.partition("=")[0].lstrip("+~")


def _quoted(value: str) -> str:
    return value if _PLAIN_WORD.fullmatch(value) else "'" + value.replace("'", "\\'") + "'"
