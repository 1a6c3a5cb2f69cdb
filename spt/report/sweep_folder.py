"""What lies in the folder of a sweep, or in any folder of runs: its jobs, and the settings that they try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from spt.config.tree import Plain
from spt.report.reading import Reader
from spt.report.run_folder import RunRecord, Status, command_line, is_run, read_run, typed_for_hydra
from spt.sweep.plan import Plan, PlannedJob, read_plan
from spt.sweep.record import JobRecord, read_record
from spt.sweep.table import SEED

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """One job of a sweep.

    Attributes:
        name: of its folder; empty for a refused job, which has none.
        overrides: what was typed for it.
        status: how it ended, or where it is.
        reason: one line, where it did not complete.
        seconds: of all its starts; None where nothing tells.
        run: what its run has left; None where it never began.
    """

    name: str
    overrides: list[str]
    status: Status
    reason: str | None
    seconds: float | None
    run: RunRecord | None

    @property
    def values(self) -> dict[str, str]:
        """Its overrides by key."""
        return {key: value for key, _, value in (word.partition("=") for word in self.overrides)}


@dataclass(frozen=True)
class Setting:
    """Jobs that differ in their seed alone.

    Attributes:
        label: what tells it from the other settings.
        values: of the swept keys, the seed left out.
        jobs: one a seed.
    """

    label: str
    values: dict[str, str]
    jobs: list[Job]

    @property
    def is_measured(self) -> bool:
        """Whether one of its runs is complete, so that it may be compared."""
        return any(job.status == "completed" for job in self.jobs)

    @property
    def runs(self) -> list[RunRecord]:
        """Those that have measured something."""
        return [job.run for job in self.jobs if job.run is not None and job.run.rows]


@dataclass(frozen=True)
class SweepRecord:
    """A sweep as its folder tells it.

    Attributes:
        folder: absolute.
        command: what was typed; None for a folder of runs that no sweep has made.
        metrics: columns asked for.
        jobs: in the order in which they were asked for.
        problems: files that are there and cannot be read.
    """

    folder: Path
    command: str | None
    metrics: list[str]
    jobs: list[Job]
    problems: list[str]

    @property
    def swept_keys(self) -> list[str]:
        """Keys in which what was typed differs, in the order in which they were typed."""
        keys = dict.fromkeys(key for job in self.jobs for key in job.values)
        return [key for key in keys if len({job.values.get(key) for job in self.jobs}) > 1]

    @property
    def settings(self) -> list[Setting]:
        """Jobs that differ in their seed alone, together, those that were refused left out."""
        keys = [key for key in self.swept_keys if key != SEED]
        groups: dict[frozenset[str], list[Job]] = {}
        for job in self.jobs:
            if job.status != "refused":
                words = frozenset(word for word in job.overrides if not word.startswith(f"{SEED}="))
                groups.setdefault(words, []).append(job)
        return [_setting(keys, jobs) for jobs in groups.values()]


def is_sweep(folder: Path) -> bool:
    """Whether a folder is that of a sweep, or holds folders of runs."""
    if (folder / "multirun.yaml").is_file() or (folder / "jobs.json").is_file():
        return True
    return not is_run(folder) and any(is_run(path) for path in folder.iterdir() if path.is_dir())


def read_sweep(folder: Path, *, now: float) -> SweepRecord:
    """The sweep of a folder.

    Args:
        folder: of the sweep.
        now: seconds since 1970.
    """
    reader = Reader(folder)
    plan = _read(read_plan, folder, reader.problems) or Plan([], [])
    planned = {job.folder for job in plan.jobs}
    found = sorted((path for path in folder.iterdir() if path.is_dir() and is_run(path)), key=_by_number)
    others = [PlannedJob([], path.name) for path in found if path.name not in planned]
    jobs = [_read_job(folder, job, reader.problems, now=now) for job in (*plan.jobs, *others)]
    return SweepRecord(folder.absolute(), _command(reader), plan.metrics, jobs, reader.problems)


def _read(read: Callable[[Path], T], folder: Path, problems: list[str]) -> T | None:
    """What lies in a folder; None, and a line for the reader, where it is damaged."""
    try:
        return read(folder)
    except (ValueError, KeyError, TypeError) as error:
        problems.append(f"{folder.name} has a record that cannot be read: {' '.join(str(error).split())}")
        return None


def _read_job(sweep: Path, planned: PlannedJob, problems: list[str], *, now: float) -> Job:
    if planned.folder is None or planned.refusal is not None:
        return Job("", planned.overrides, "refused", planned.refusal, None, None)
    folder = sweep / Path(planned.folder).name
    run = read_run(folder, now=now) if is_run(folder) else None
    record = _read(read_record, folder, problems)
    typed = planned.overrides or (record.overrides if record is not None else None)
    typed = typed or (run.overrides if run is not None else None) or []
    status, reason = _job_status(run, record)
    seconds = run.seconds if run is not None else None
    if record is not None and record.seconds and status != "running":
        seconds = record.seconds  # of all starts together
    return Job(folder.name, typed, status, reason, seconds, run)


def _job_status(run: RunRecord | None, record: JobRecord | None) -> tuple[Status, str | None]:
    """Of what the run and the sweep know, what is true now."""
    status, reason = (run.status, run.reason) if run is not None else ("waiting", "not started yet")
    if record is None or status in ("running", "completed"):  # no record knows better: it may have been resumed by hand
        return status, reason
    if record.status != "running":
        return record.status, record.reason or reason
    if record.is_alive:
        return "running", "starting, or ending"
    if record.is_abandoned:
        return "killed", "its process is gone, and the sweep could not say why" if status == "waiting" else reason
    if run is not None and run.is_silent:
        return status, reason
    return "running", f"on {record.host}, which cannot be seen from here"


def _command(reader: Reader) -> str | None:
    hydra = reader.yaml("multirun.yaml").get("hydra")
    overrides = hydra.get("overrides") if isinstance(hydra, dict) else None
    if not isinstance(overrides, dict):
        return None
    return command_line([*_words(overrides.get("task")), *typed_for_hydra(overrides.get("hydra"))], is_sweep=True)


def _setting(keys: Sequence[str], jobs: list[Job]) -> Setting:
    values = {key: jobs[0].values[key] for key in keys if key in jobs[0].values}
    return Setting(" ".join(f"{key}={value}" for key, value in values.items()) or "all runs", values, jobs)


def _words(node: Plain) -> list[str]:
    return [str(word) for word in node] if isinstance(node, list) else []


def _by_number(path: Path) -> tuple[bool, int, str]:
    return not path.name.isdecimal(), int(path.name) if path.name.isdecimal() else 0, path.name
