"""Jobs keep their folders from command to command."""

from __future__ import annotations

from pathlib import Path

from spt.sweep.plan import Folders, PlannedJob, extend_plan, read_plan
from tests.sweep.folders import leave_job


def test_the_same_overrides_in_any_order_are_one_job(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    assert folders.find(["method=dino", "seed=1"]) == "0"
    assert folders.find(["method=dino", "seed=2"]) == "1"
    assert folders.find(["seed=1", "method=dino"]) == "0"


def test_a_job_added_later_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    for name, seed in (("0", 1), ("1", 2)):
        leave_job(tmp_path, name, f"seed={seed}")
    (tmp_path / "7").mkdir()  # somebody else's
    folders = Folders(tmp_path)
    assert [folders.find([f"seed={seed}"]) for seed in (3, 2, 1)] == ["8", "1", "0"]


def test_jobs_that_ran_before_stay_in_the_plan_and_those_that_never_ran_do_not(tmp_path: Path) -> None:
    extend_plan(tmp_path, [PlannedJob(["seed=1"], "0"), PlannedJob(["seed=2"], "1")], metrics=["val/a"])
    leave_job(tmp_path, "0", "seed=1")
    extend_plan(tmp_path, [PlannedJob(["seed=3"], "2"), PlannedJob(["seed=4"], None, "no")], metrics=["val/b"])
    plan = read_plan(tmp_path)
    assert [(job.overrides, job.is_asked_for) for job in plan.jobs] == [
        (["seed=1"], False), (["seed=3"], True), (["seed=4"], True)
    ]  # fmt: skip
    assert plan.metrics == ["val/b"]


def test_jobs_of_a_sweeper_that_makes_no_plan_are_found_by_their_folders(tmp_path: Path) -> None:
    for number in (10, 9):
        leave_job(tmp_path, str(number), f"seed={number}")
    assert [job.folder for job in read_plan(tmp_path).jobs] == ["9", "10"]
