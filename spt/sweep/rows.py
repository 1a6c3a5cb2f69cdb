"""The jobs of a sweep as they stand, one row each, read from their folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spt.sweep.plan import Plan, PlannedJob
from spt.sweep.record import JobRecord, JobStatus, is_completed, read_record, read_run_summary


@dataclass(frozen=True)
class Row:
    """One job.

    Attributes:
        overrides: what was typed for it.
        status: how it ended, or where it is.
        reason: one line, where it did not complete.
        seconds: of all its starts together.
        starts: how many times it was started.
        metrics: what its run measured last, by name.
        folder: of its run; None for a refused job.
    """

    overrides: list[str]
    status: JobStatus
    reason: str | None
    seconds: float
    starts: int
    metrics: dict[str, float | None]
    folder: str | None

    @property
    def values(self) -> dict[str, str]:
        """Its overrides by key."""
        pairs = (word.partition("=") for word in self.overrides)
        return {key: value for key, _, value in pairs}


def read_rows(sweep: Path, plan: Plan) -> list[Row]:
    """Every job of a sweep as it stands."""
    return [_row(sweep, job) for job in plan.jobs]


def key_metrics(plan: Plan, rows: Sequence[Row]) -> list[str]:
    """The metrics of the table: those asked for that some run has measured; all of val/ where nothing was asked for."""
    measured = {name for row in rows for name, value in row.metrics.items() if value is not None}
    asked = plan.metrics or sorted(name for name in measured if name.startswith("val/"))
    return [name for name in asked if name in measured]


def _row(sweep: Path, job: PlannedJob) -> Row:
    if job.refusal is not None or job.folder is None:
        return Row(job.overrides, "refused", " ".join((job.refusal or "").split()), 0.0, 0, {}, None)
    folder = sweep / job.folder
    record = read_record(folder) or JobRecord(job.overrides, "waiting")
    metrics = read_run_summary(folder).get("metrics")
    if record.is_abandoned:  # the sweep was killed, and its jobs with it
        record = replace(record, status="killed", reason="ended together with its sweep")
    if record.status == "killed" and is_completed(folder, job.overrides):
        record = replace(record, status="completed", reason=None)  # it had just saved everything
    return Row(
        overrides=job.overrides,
        status=record.status,
        reason=record.reason,
        seconds=record.seconds,
        starts=record.starts,
        metrics=dict(metrics) if isinstance(metrics, dict) else {},
        folder=str(folder),
    )
