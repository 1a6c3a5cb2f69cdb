"""jobs.json: the jobs of a sweep and their folders, in the order in which they were asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from spt.reporting.atomic import write_text
from spt.sweep.record import FILE as RECORD
from spt.sweep.record import read_record

FILE = "jobs.json"


@dataclass(frozen=True)
class PlannedJob:
    """One job.

    Attributes:
        overrides: what was typed for it.
        folder: its name below the sweep's; None for a refused job, which has none.
        refusal: why it cannot work, or None.
        is_asked_for: by the latest command, not only by an earlier one on the same folder.
    """

    overrides: list[str]
    folder: str | None
    refusal: str | None = None
    is_asked_for: bool = True


@dataclass(frozen=True)
class Plan:
    """What jobs.json holds.

    Attributes:
        metrics: columns of the table.
        jobs: in order.
    """

    metrics: list[str]
    jobs: list[PlannedJob]


def read_plan(sweep: Path) -> Plan:
    """The plan of a sweep's folder, with jobs that were started there without one; empty for a new folder."""
    metrics, jobs = [], []
    if (sweep / FILE).is_file():
        content = json.loads((sweep / FILE).read_text(encoding="utf-8"))
        metrics, jobs = content["metrics"], [PlannedJob(**job) for job in content["jobs"]]
    known = {job.folder for job in jobs}
    for folder in sorted(sweep.glob(f"*/{RECORD}"), key=_by_number):
        record = read_record(folder.parent)
        if record is not None and folder.parent.name not in known:
            jobs.append(PlannedJob(record.overrides, folder.parent.name))
    return Plan(metrics, jobs)


def _write_plan(sweep: Path, plan: Plan) -> None:
    """Replaces the plan in one move."""
    write_text(sweep / FILE, json.dumps(asdict(plan), indent=2) + "\n")


class Folders:
    """Gives every job of a sweep its folder: the one it had before, or a new number.

    Args:
        sweep: folder of the sweep.
    """

    def __init__(self, sweep: Path) -> None:
        self.of: dict[tuple[str, ...], str] = {}
        for job in read_plan(sweep).jobs:
            if job.folder is not None:
                self.of.setdefault(_key(job.overrides), job.folder)
        taken = {*self.of.values(), *(path.name for path in sweep.glob("*") if path.is_dir())}
        self.next = max((int(name) + 1 for name in taken if name.isdecimal()), default=0)

    def find(self, overrides: Sequence[str]) -> str:
        """The name of a job's folder, the same for the same overrides in any order."""
        key = _key(overrides)
        if key not in self.of:
            self.of[key] = str(self.next)
            self.next += 1
        return self.of[key]


def extend_plan(sweep: Path, jobs: Iterable[PlannedJob], *, metrics: list[str], keep: bool = False) -> None:
    """Writes the plan of a command: its jobs, after those of earlier commands that it does not name and that ran.

    Args:
        sweep: folder of the sweep.
        jobs: that the command asks for.
        metrics: columns of the table.
        keep: the jobs are further ones of the same command; all that there are stay asked for.
    """
    asked = list(jobs)
    keys = {_key(job.overrides) for job in asked}
    others = [job for job in read_plan(sweep).jobs if _key(job.overrides) not in keys]
    others = [job for job in others if keep or job.folder is not None]
    if not keep:
        ran = [job for job in others if (sweep / str(job.folder) / RECORD).is_file()]
        others = [replace(job, is_asked_for=False) for job in ran]
    _write_plan(sweep, Plan(metrics, [*others, *asked]))


def _key(overrides: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(overrides))


def _by_number(file: Path) -> tuple[bool, int, str]:
    name = file.parent.name
    return not name.isdecimal(), int(name) if name.isdecimal() else 0, name
