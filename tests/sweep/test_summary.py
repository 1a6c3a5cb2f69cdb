"""The three files of a sweep hold every job as it stands."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from spt.sweep.plan import PlannedJob, extend_plan
from spt.sweep.record import started, write_record
from spt.sweep.summary import write_sweep_summary
from tests.sweep.folders import leave_job


def test_every_job_is_in_all_three_files(tmp_path: Path) -> None:
    jobs = [PlannedJob([f"seed={seed}"], str(seed)) for seed in range(3)] + [
        PlannedJob(["seed=-1"], None, "too\nsmall")
    ]
    extend_plan(tmp_path, jobs, metrics=["val/knn_top1", "val/never"])
    leave_job(tmp_path, "0", "seed=0", metrics={"val/knn_top1": 0.5, "train/loss": 3.0})
    leave_job(tmp_path, "1", "seed=1", status="killed", reason="SIGKILL")
    write_sweep_summary(tmp_path)
    rows = json.loads((tmp_path / "summary.json").read_text())["jobs"]
    assert [row["status"] for row in rows] == ["completed", "killed", "waiting", "refused"]
    assert [row["reason"] for row in rows] == [None, "SIGKILL", None, "too small"]
    assert [row["folder"] for row in rows] == [*(str(tmp_path / str(number)) for number in range(3)), None]
    assert rows[0]["metrics"] == {"val/knn_top1": 0.5, "train/loss": 3.0}
    lines = list(csv.DictReader((tmp_path / "summary.csv").read_text().splitlines()))
    assert [line["seed"] for line in lines] == ["0", "1", "2", "-1"]
    assert lines[0]["val/knn_top1"] == "0.5"
    assert "val/never" not in lines[0]  # no run has measured it
    assert "4 jobs: 1 completed, 1 waiting, 1 killed, 1 refused" in (tmp_path / "summary.md").read_text()


def test_without_a_plan_the_columns_are_what_was_evaluated(tmp_path: Path) -> None:
    leave_job(tmp_path, "0", "seed=0", metrics={"val/b": 0.5, "val/a": 0.25, "train/loss": 3.0})
    write_sweep_summary(tmp_path)
    assert (tmp_path / "summary.csv").read_text().splitlines()[0] == "seed,status,reason,seconds,val/a,val/b,folder"


def test_jobs_of_a_sweep_that_was_killed_are_not_shown_as_running(tmp_path: Path) -> None:
    for name in ("0", "1"):
        folder = leave_job(tmp_path, name, f"seed={name}", status="killed")
        write_record(folder, started(folder, [f"seed={name}"], process=2**22 + 1))  # above the largest process id
    (tmp_path / "1" / "summary.json").write_text('{"status": "completed", "metrics": {}}')
    first, second = write_sweep_summary(tmp_path)
    assert (first.status, first.reason) == ("killed", "ended together with its sweep")
    assert (second.status, second.reason) == ("completed", None)
