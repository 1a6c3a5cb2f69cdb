"""Folders of sweeps as jobs leave them."""

from __future__ import annotations

import json
from pathlib import Path

from spt.sweep.record import JobRecord, JobStatus, write_record


def leave_job(
    sweep: Path,
    name: str,
    *overrides: str,
    status: JobStatus = "completed",
    reason: str | None = None,
    metrics: dict[str, float] | None = None,
    seconds: float = 10.0,
) -> Path:
    """The folder of a job that has ended, with the summary.json of its run unless it was killed."""
    folder = sweep / name
    write_record(folder, JobRecord(list(overrides), status, reason, seconds, starts=1))
    if status != "killed":
        summary = {"status": status, "metrics": metrics or {}}
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder
