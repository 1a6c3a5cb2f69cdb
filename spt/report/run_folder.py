"""What lies in the folder of a run, whether it has ended, is going on or was killed."""

from __future__ import annotations

import fcntl
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from spt.config.tree import Plain
from spt.report.reading import Reader, flat
from spt.report.text import duration
from spt.sweep.record import JobStatus

Status = JobStatus
"""How a run ended, or where it is."""
_ENDINGS: tuple[Status, ...] = ("completed", "failed", "preempted")
_LOG_LINES = 80
_GROUPS = ("method", "backbone", "data", "optimizer", "strategy", "precision", "experiment", "debug")
_STALLED_AFTER = 600.0
"""Seconds without a new row after which a run that is going on is said to be slow or stuck."""


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder tells it.

    Attributes:
        folder: absolute.
        status: how it ended, or where it is; killed: it is over and could not say so.
        reason: one line, where it did not complete.
        rows: of metrics.csv.
        summary: of summary.json; empty before the run has ended.
        choices: options by group, such as {"method": "dino"}.
        config: every number that ran, by dotted key; the run's own folder is written RUN_FOLDER.
        overrides: what was typed for it; None where the config came from Python.
        hydra_overrides: what was typed for Hydra itself.
        is_silent: none of its files has changed for long.
        seconds: from start to end or to now; None where nothing tells.
        log: its last lines.
        checkpoints: steps of those that are kept, by name.
        evaluations: results of the network, by the name of their file.
        problems: files that are there and cannot be read.
    """

    folder: Path
    status: Status
    reason: str | None
    rows: list[dict[str, float]]
    summary: dict[str, Plain]
    choices: dict[str, str]
    config: dict[str, Plain]
    overrides: list[str] | None
    hydra_overrides: list[str]
    is_silent: bool
    seconds: float | None
    log: list[str]
    checkpoints: dict[str, float]
    evaluations: dict[str, dict[str, Plain]]
    problems: list[str]

    @property
    def latest(self) -> dict[str, float]:
        """The last value of every metric."""
        return {name: value for row in self.rows for name, value in row.items() if "/" in name}

    @property
    def at_start(self) -> dict[str, float]:
        """Metrics of the untrained network."""
        first = self.rows[0] if self.rows and self.rows[0]["step"] == 0 else {}
        return {name: value for name, value in first.items() if "/" in name}

    @property
    def steps(self) -> int:
        """Optimizer steps in its last row."""
        return int(self.rows[-1]["step"]) if self.rows else 0

    @property
    def command(self) -> str | None:
        """What was typed; None where the run was started from Python."""
        return None if self.overrides is None else command_line([*self.overrides, *self.hydra_overrides])


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run."""
    if (folder / "multirun.yaml").is_file() or (folder / "jobs.json").is_file():
        return False
    return (folder / ".hydra").is_dir() or (folder / "metrics.csv").is_file()


def read_run(folder: Path, *, now: float) -> RunRecord:
    """The run of a folder.

    Args:
        folder: of the run.
        now: seconds since 1970.
    """
    reader = Reader(folder)
    summary, rows = reader.json("summary.json"), reader.rows("metrics.csv")
    log = reader.tail("train.log", _LOG_LINES)
    status, reason = _status(folder, summary, now=now)
    hydra = flat(reader.yaml(".hydra/hydra.yaml"))
    results = sorted(path.relative_to(folder).as_posix() for path in (folder / "evaluation").glob("*.json"))
    return RunRecord(
        folder=folder.absolute(),
        status=status,
        reason=reason,
        rows=rows,
        summary=summary,
        choices=_choices(hydra, summary),
        config=_without_folder(flat(reader.yaml("config_resolved.yaml")), hydra.get("hydra.runtime.output_dir")),
        overrides=reader.words(".hydra/overrides.yaml"),
        hydra_overrides=typed_for_hydra(hydra.get("hydra.overrides.hydra")),
        is_silent=now - _last_sign(folder) > _STALLED_AFTER,
        seconds=_seconds(folder, summary, is_running=status == "running", now=now),
        log=log,
        checkpoints=_checkpoints(reader.json("checkpoints/index.json")),
        evaluations={name: reader.json(name) for name in results},
        problems=reader.problems,
    )


def typed_for_hydra(words: Plain) -> list[str]:
    """What was typed for Hydra itself, without what Hydra and sweeps add."""
    given = [str(word) for word in words] if isinstance(words, list) else []
    return [word for word in given if not word.startswith(("hydra.mode=", "hydra.sweep.subdir="))]


def command_line(words: Sequence[str], *, is_sweep: bool = False) -> str:
    """A line for a shell."""
    return " ".join(["python train.py", *(["-m"] if is_sweep else []), *map(shlex.quote, words)])


def is_locked(folder: Path) -> bool:
    """Whether a process on this machine holds the folder.

    A shared lock is tried and given back at once, which disturbs neither a run that holds the folder nor other readers.
    """
    try:
        with (folder / ".lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _status(folder: Path, summary: dict[str, Plain], *, now: float) -> tuple[Status, str | None]:
    silence = now - _last_sign(folder)
    if is_locked(folder):
        is_stalled = silence > _STALLED_AFTER
        return "running", f"nothing new in its files for {duration(silence)}" if is_stalled else None
    error = summary.get("error")
    ending = next((known for known in _ENDINGS if known == summary.get("status")), None)
    if ending is not None:
        reason = "told to stop; can go on" if ending == "preempted" else None
        return ending, str(error) if error else reason
    sign = f"last sign {duration(silence)} ago"
    has_lock, is_recent = (folder / ".lock").exists(), silence < _STALLED_AFTER
    if not has_lock and not (folder / "metrics.csv").exists():
        return "waiting", "not started yet, or ended before it began"
    if not has_lock and is_recent:  # started from Python, by what takes no lock
        return "running", f"no lock tells whether it still runs; {sign}"
    elsewhere = " (it may run on another one)" if is_recent else ""
    return "killed", f"it wrote no summary, and no process on this machine holds its folder{elsewhere}; {sign}"


def _last_sign(folder: Path) -> float:
    """When one of a run's own files changed last, in seconds since 1970."""
    files = [folder / name for name in ("metrics.csv", "train.log", "config_resolved.yaml")]
    return max((file.stat().st_mtime for file in files if file.is_file()), default=folder.stat().st_mtime)


def _seconds(folder: Path, summary: dict[str, Plain], *, is_running: bool, now: float) -> float | None:
    told = summary.get("seconds")
    if isinstance(told, (int, float)) and not is_running:
        return float(told)
    try:
        with (folder / "train.log").open(encoding="utf-8", errors="replace") as file:
            began = datetime.strptime(file.readline()[:19], "%Y-%m-%d %H:%M:%S").timestamp()
    except (FileNotFoundError, ValueError):  # no log yet, or one of another form
        return None
    return (now if is_running else _last_sign(folder)) - began


def _choices(hydra: dict[str, Plain], summary: dict[str, Plain]) -> dict[str, str]:
    found = {group: hydra.get(f"hydra.runtime.choices.{group}", summary.get(group)) for group in _GROUPS}
    return {group: str(option) for group, option in found.items() if option is not None}


def _without_folder(config: dict[str, Plain], folder: Plain) -> dict[str, Plain]:
    """The same with one name for the run's folder, which would make any two runs differ."""
    if not isinstance(folder, str) or not folder:
        return config
    return {
        key: value.replace(folder, "RUN_FOLDER") if isinstance(value, str) else value for key, value in config.items()
    }


def _checkpoints(index: dict[str, Plain]) -> dict[str, float]:
    kept = index.get("checkpoints")
    found = {}
    for name, facts in (kept if isinstance(kept, dict) else {}).items():
        step = facts.get("step") if isinstance(facts, dict) else None
        if isinstance(step, (int, float)):
            found[name] = float(step)
    return dict(sorted(found.items(), key=lambda pair: pair[1]))
