"""job.json: what a job of a sweep is and how far it has come. Written by whoever runs it, read for the summary."""

from __future__ import annotations

import json
import os
import platform
import signal
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from spt.reporting.atomic import write_text

FILE = "job.json"
REASON = ".reason"
"""Note of a job's process: its error in one line, where it had no run yet to write it into."""

JobStatus = Literal["waiting", "running", "completed", "failed", "killed", "preempted", "refused"]


@dataclass(frozen=True)
class JobRecord:
    """What job.json holds.

    Attributes:
        overrides: what was typed for this job; what tells it from the other jobs of the sweep.
        status: killed: by a signal, not by its own error; preempted: told to stop, can go on.
        reason: one line, where it did not complete.
        seconds: of all starts together.
        starts: how many times it was started.
        host, process: where it was started last, and the id of that process.
    """

    overrides: list[str]
    status: JobStatus
    reason: str | None = None
    seconds: float = 0.0
    starts: int = 0
    host: str = ""
    process: int = 0

    @property
    def is_alive(self) -> bool:
        """Whether its process is running on this machine right now."""
        return self.status == "running" and self.host == platform.node() and _is_job(self.process)

    @property
    def is_abandoned(self) -> bool:
        """Whether it was started on this machine, and its process is gone without anybody having written it down."""
        return self.status == "running" and self.host == platform.node() and not _is_job(self.process)


def read_record(folder: Path) -> JobRecord | None:
    """The record of a job's folder; None before its first start."""
    try:
        return JobRecord(**json.loads((folder / FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def write_record(folder: Path, record: JobRecord) -> None:
    """Replaces the record in one move."""
    write_text(folder / FILE, json.dumps(asdict(record), indent=2) + "\n")


def read_run_summary(folder: Path) -> dict[str, object]:
    """What the run of a job left in summary.json; empty before it has ended."""
    try:
        content = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return content if isinstance(content, dict) else {}


def is_completed(folder: Path, overrides: list[str]) -> bool:
    """Whether the job that these overrides stand for has been run to its end in this folder."""
    record = read_record(folder)
    return (
        record is not None
        and sorted(record.overrides) == sorted(overrides)
        and read_run_summary(folder).get("status") == "completed"
    )


def started(folder: Path, overrides: list[str], process: int) -> JobRecord:
    """The record of a job whose process has just been started."""
    before = read_record(folder) or JobRecord(overrides, "waiting")
    return JobRecord(overrides, "running", None, before.seconds, before.starts + 1, platform.node(), process)


def ended(record: JobRecord, folder: Path, exit_code: int, *, seconds: float, was_told: bool) -> JobRecord:
    """The record of a job whose process is gone.

    Args:
        record: as it was when the process started.
        folder: of the job.
        exit_code: negative for a signal.
        seconds: that the process ran.
        was_told: the sweep had told it to stop.
    """
    summary = read_run_summary(folder)
    status, reason = _ending(summary, exit_code, was_told=was_told)
    note = folder / REASON
    if status == "failed" and note.is_file():
        reason = note.read_text(encoding="utf-8")
    if status == "failed" and isinstance(summary.get("error"), str):
        reason = str(summary["error"])
    return replace(record, status=status, reason=reason, seconds=round(record.seconds + seconds, 1))


def _ending(summary: dict[str, object], exit_code: int, *, was_told: bool) -> tuple[JobStatus, str | None]:
    if exit_code == 0 and summary.get("status") == "completed":
        return "completed", None
    if was_told or summary.get("status") == "preempted":
        return "preempted", "told to stop"
    if exit_code < 0:
        advice = ", which the kernel sends when memory runs out" if exit_code == -signal.SIGKILL else ""
        return "killed", f"{signal.Signals(-exit_code).name}{advice}"
    if exit_code == 0:
        return "failed", "ended with exit status 0 before its run was complete"
    return "failed", f"ended with exit status {exit_code}"


def _is_job(process: int) -> bool:
    try:
        os.kill(process, 0)
        command = Path(f"/proc/{process}/cmdline")
        return b"spt.sweep.process" in command.read_bytes() if command.exists() else True
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError:  # somebody else's: the number has been given again
        return False
