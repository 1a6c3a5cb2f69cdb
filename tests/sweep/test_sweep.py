"""Whole sweeps as they are typed: jobs that fail or are killed, the table, the exit status, the same command again."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from spt.sweep.record import JobRecord, read_record
from tests.launch.commands import ranks_of, start, summary

pytestmark = pytest.mark.slow

LONG = ("trainer.max_epochs=120", "hydra.sweep.dir=sweep")


def rows(sweep: Path) -> dict[str, str]:
    """Status of every job of a sweep, by its folder's name."""
    jobs = json.loads((sweep / "summary.json").read_text())["jobs"]
    return {Path(job["folder"]).name: job["status"] for job in jobs}


def record(folder: Path) -> JobRecord:
    found = read_record(folder)
    assert found is not None
    return found


def wait_for(file: Path, timeout: float = 120.0) -> None:
    """Returns once the file is there."""
    deadline = time.monotonic() + timeout
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} did not come"
        time.sleep(0.05)


def test_a_sweep_outlives_its_failures_and_goes_on_where_it_was(tmp_path: Path) -> None:
    words = ("-m", "optimizer.rule=adamw,nothing", "seed=1,2", "sweep.parallel=2", *LONG)
    sweep = tmp_path / "sweep"
    process = start(tmp_path, *words)
    wait_for(sweep / "0" / "checkpoints" / "last.ckpt")
    os.kill(record(sweep / "0").process, signal.SIGKILL)
    console = process.communicate(timeout=200)[0]
    assert process.returncode == 1, console
    assert rows(sweep) == {"0": "killed", "1": "completed", "2": "failed", "3": "failed"}
    table = console[console.index("4 jobs:") :]
    for line in (
        "1 completed, 1 killed, 2 failed",
        "SIGKILL, which the kernel",
        "optimizer.rule=nothing does not exist",
    ):
        assert line in table
    assert table.index("adamw") < table.index("SIGKILL")

    process = start(tmp_path, *words)
    console = process.communicate(timeout=200)[0]
    assert process.returncode == 1, console
    assert f"sweep of 4 jobs in {sweep}, 1 of them complete already" in console
    assert rows(sweep) == {"0": "completed", "1": "completed", "2": "failed", "3": "failed"}
    assert [record(sweep / name).starts for name in "0123"] == [2, 1, 2, 2]
    resumed = OmegaConf.load(sweep / "0" / "config_resolved.yaml").resume
    assert resumed == "auto"
    assert "going on from" in (sweep / "0" / "train.log").read_text()
    assert summary(sweep / "0")["steps"] == summary(sweep / "1")["steps"] == 360


def test_control_c_stops_jobs_in_order_and_leaves_the_rest_waiting(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    process = start(
        tmp_path, "-m", "seed=1,2", "trainer.devices=2", "trainer.max_epochs=100000", "hydra.sweep.dir=sweep"
    )
    wait_for(sweep / "0" / "metrics.csv")
    job = record(sweep / "0").process
    assert len(ranks_of(job)) == 2
    process.send_signal(signal.SIGINT)
    console = process.communicate(timeout=60)[0]
    assert process.returncode == 130, console
    assert "Traceback" not in console
    assert rows(sweep) == {"0": "preempted", "1": "waiting"}
    assert summary(sweep / "0")["status"] == "preempted"
    assert ranks_of(job) == []


def test_jobs_end_with_a_sweep_that_is_killed(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    process = start(tmp_path, "-m", "seed=1,2", "trainer.max_epochs=100000", "hydra.sweep.dir=sweep")
    wait_for(sweep / "0" / "metrics.csv")
    assert record(sweep / "0").is_alive
    process.kill()
    process.communicate(timeout=20)
    deadline = time.monotonic() + 5
    while record(sweep / "0").is_alive and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not record(sweep / "0").is_alive


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    words = ("-m", "seed=1,2", "trainer.max_epochs=100000", "hydra.sweep.dir=sweep")
    first = start(tmp_path, *words)
    wait_for(tmp_path / "sweep" / "0" / "metrics.csv")
    second = start(tmp_path, *words)
    console = second.communicate(timeout=60)[0]
    first.terminate()
    first.communicate(timeout=60)
    assert first.returncode == 143
    assert second.returncode == 2, console
    assert "hydra.sweep.dir=" in console
    assert "is in use" in console
    assert "Traceback" not in console


def test_the_launcher_of_hydra_runs_jobs_in_fresh_processes_too(tmp_path: Path) -> None:
    words = ("-m", "seed=1,2", "optimizer.rule=nothing,adamw", "hydra/launcher=basic", "trainer.max_epochs=1")
    process = start(tmp_path, *words, "hydra.sweep.dir=sweep")
    console = process.communicate(timeout=200)[0]
    assert process.returncode == 1
    assert rows(tmp_path / "sweep") == {"0": "failed", "1": "completed", "2": "failed", "3": "completed"}
    assert console.count("optimizer.rule=nothing does not exist") >= 2
    assert len({record(tmp_path / "sweep" / name).process for name in "0123"}) == 4
