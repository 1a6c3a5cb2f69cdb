"""How a job has ended, from what its process and its run have left."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from spt.sweep.record import REASON, JobRecord, ended, is_completed, read_record, started, write_record
from tests.sweep.folders import leave_job

# run's summary.json, exit status, whether the sweep told it to stop -> status and a part of the reason
ENDINGS: dict[str, tuple[dict[str, str], int, bool, str, str]] = {
    "complete": ({"status": "completed"}, 0, False, "completed", ""),
    "its own error": (
        {"status": "failed", "error": "ZeroDivisionError: x"},
        1,
        False,
        "failed",
        "ZeroDivisionError: x",
    ),
    "no run yet": ({}, 2, False, "failed", "ended with exit status 2"),
    "left early without an error": ({}, 0, False, "failed", "before its run was complete"),
    "out of memory": ({}, -signal.SIGKILL, False, "killed", "SIGKILL, which the kernel sends when memory runs out"),
    "a crash": ({}, -signal.SIGSEGV, False, "killed", "SIGSEGV"),
    "told to stop by somebody": ({"status": "preempted"}, 138, False, "preempted", "told to stop"),
    "told to stop before it could answer": ({}, -signal.SIGTERM, True, "preempted", "told to stop"),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_the_ending_says_what_happened(case: str, tmp_path: Path) -> None:
    summary, code, was_told, status, reason = ENDINGS[case]
    if summary:
        (tmp_path / "summary.json").write_text(json.dumps(summary))
    record = ended(started(tmp_path, ["seed=1"], 1), tmp_path, code, seconds=2.0, was_told=was_told)
    assert record.status == status
    assert reason in (record.reason or "")
    assert (record.reason is None) == (status == "completed")


def test_an_error_before_the_run_is_found_in_the_note(tmp_path: Path) -> None:
    (tmp_path / REASON).write_text("ConfigError: no images in there")
    record = ended(started(tmp_path, ["seed=1"], 1), tmp_path, 2, seconds=2.0, was_told=False)
    assert record.reason == "ConfigError: no images in there"


def test_starts_and_seconds_add_up(tmp_path: Path) -> None:
    for seconds in (2.0, 3.0):
        write_record(tmp_path, ended(started(tmp_path, ["a=1"], 1), tmp_path, 1, seconds=seconds, was_told=False))
    record = read_record(tmp_path)
    assert record is not None
    assert (record.starts, record.seconds) == (2, 5.0)


def test_a_job_is_complete_for_its_own_overrides_only(tmp_path: Path) -> None:
    folder = leave_job(tmp_path, "0", "method=dino", "seed=1")
    assert is_completed(folder, ["seed=1", "method=dino"])
    assert not is_completed(folder, ["seed=2", "method=dino"])
    assert not is_completed(folder, ["seed=1"])
    assert not is_completed(leave_job(tmp_path, "1", "seed=1", status="preempted"), ["seed=1"])
    assert not is_completed(tmp_path / "none", ["seed=1"])


def test_a_process_that_is_no_job_is_not_taken_for_one(tmp_path: Path) -> None:
    assert not started(tmp_path, ["seed=1"], os.getpid()).is_alive  # this process: no job, whatever its number was
    assert not started(tmp_path, ["seed=1"], 2**22 + 1).is_alive  # above the largest process id
    assert not JobRecord(["seed=1"], "completed", process=os.getpid()).is_alive
