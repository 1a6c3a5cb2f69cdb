from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from spt.report.sweep_folder import read_sweep
from tests.report.document import Document, report
from tests.report.folders import EVIL, NOW, add_job, make_picture, make_run, make_sweep, write


def data(page: Document) -> dict[str, list[dict[str, object]]]:
    (text,) = (script.text for script in page.all("script") if script.attributes.get("type") == "application/json")
    content: dict[str, list[dict[str, object]]] = json.loads(text)
    return content


def test_settings_are_compared_by_mean_and_deviation_over_their_seeds(tmp_path: Path) -> None:
    table = report(make_sweep(tmp_path / "lr")).table("Mean \u00b1 standard deviation")
    assert [row[:3] for row in table[1:]] == [
        ["0.1", "2 runs", "0.800 \u00b1 0.071"],
        ["0.2", "2 runs", "0.60 \u00b1 0.14"],
        ["0.3", "0 of 2 runs completed, values so far", "0.38 \u00b1 0.18"],
    ]


def test_every_job_has_a_row(tmp_path: Path) -> None:
    table = report(make_sweep(tmp_path / "lr")).table("Every job")
    assert [(row[0], row[3]) for row in table[1:]] == [
        ("0", "\u2713 completed"), ("1", "\u2713 completed"), ("2", "\u2713 completed"), ("3", "\u2713 completed"),
        ("4", "\u2717 failed"), ("5", "\u2717 killed"), ("\u2013", "\u2298 refused"),
    ]  # fmt: skip
    assert table[1] == ["0", "0.1", "1", "\u2713 completed", "0.250 \u2192 0.750", "20", "1 min 0 s"]


def test_evaluations_of_the_networks_are_compared(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "lr")
    assert "evaluations" not in {part.attributes["id"] for part in report(sweep).all("section")}
    write(sweep / "0" / "evaluation" / "linear_probe-dino.json", json.dumps({"metric": "linear_top1", "value": 0.9123}))
    write(sweep / "2" / "evaluation" / "knn.json", json.dumps({"metric": "knn_top1", "value": 0.75, "k": 20}))
    table = report(sweep).table("Evaluations of the networks")
    assert table[0] == ["job", "optimizer.lr", "seed", "knn", "linear_probe-dino"]
    assert table[1] == ["0", "0.1", "1", "\u2013", "0.9123"]
    assert table[3] == ["2", "0.2", "1", "0.7500", "\u2013"]


def test_jobs_that_did_not_complete_say_why(tmp_path: Path) -> None:
    table = report(make_sweep(tmp_path / "lr")).table("Jobs that did not complete")
    reasons = {row[0]: row[2] for row in table[1:]}
    assert reasons["4"] == "NonFiniteLossError: the loss is nan"
    assert reasons["5"].startswith("it wrote no summary, and no process on this machine holds its folder")
    assert reasons["\u2013"] == "lr-positive: optimizer.lr=-1 is no learning rate. try: optimizer.lr=0.1"


def test_seeds_are_drawn_as_a_band_around_their_mean(tmp_path: Path) -> None:
    content = data(report(make_sweep(tmp_path / "lr")))
    assert [series["label"] for series in content["series"]] == [
        "optimizer.lr=0.1", "optimizer.lr=0.2", "optimizer.lr=0.3",
    ]  # fmt: skip
    (chart,) = (chart for chart in content["charts"] if chart["metric"] == "val/knn_top1")
    lines = chart["lines"]
    assert isinstance(lines, list)
    assert lines[0]["points"] == [[0, 0.25, 0.25, 0.25, 2], [10, 0.5, 0.5, 0.5, 2], [20, 0.8, 0.75, 0.85, 2]]
    assert lines[2]["points"] == [[0, 0.25, 0.25, 0.25, 2], [10, 0.5, 0.5, 0.5, 1]]  # one of the two failed at once


def test_only_keys_that_differ_between_settings_are_differences(tmp_path: Path) -> None:
    # neither the seed nor a path into the run's own folder, though both differ
    assert report(make_sweep(tmp_path / "lr")).table("3 keys of 4 that differ between settings") == [
        ["key", "optimizer.lr=0.1", "optimizer.lr=0.2", "optimizer.lr=0.3"],
        ["trainer.max_epochs", "2", "2", "4"],
        ["optimizer.lr", "0.1", "0.2", "0.001"],
        ["optimizer.same", "3", "3", "\u2013"],
    ]


def test_the_best_setting_is_one_that_completed(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "lr")
    make_run(sweep / "5", "optimizer.lr=0.3", "seed=2", accuracies=(0.25, 0.99), status=None)
    cards = [card.text for card in report(sweep).all("div", "card")]
    assert cards == [
        "Best val/knn_top1 0.800 \u00b1 0.071 optimizer.lr=0.1, 2 runs",
        "Worst val/knn_top1 0.60 \u00b1 0.14 optimizer.lr=0.2, 2 runs",
    ]


def test_the_commands_of_the_sweep_and_of_each_run_are_there(tmp_path: Path) -> None:
    page = report(make_sweep(tmp_path / "lr"))
    commands = [code.text for code in page.all("code") if "train.py" in code.text]
    assert commands[0] == f"python train.py -m optimizer.lr=0.1,0.2,0.3,-1 seed=1,2 hydra.sweep.dir={tmp_path}/lr"
    assert len(commands) == 1 + 6
    assert commands[1].startswith("python train.py optimizer.lr=0.1 seed=1")


@pytest.fixture
def job_process() -> Iterator[int]:
    """A living process that is named like a job's."""
    command = [sys.executable, "-c", "print(flush=True); input()", "spt.sweep.process"]
    silence = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=silence) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has its name by now
        yield process.pid
        process.kill()


def test_a_sweep_that_goes_on_shows_jobs_that_run_start_and_wait(tmp_path: Path, job_process: int) -> None:
    sweep, here = tmp_path / "lr", platform.node()
    jobs: list[dict[str, object]] = []
    make_run(sweep / "0", "seed=0", status=None)
    make_run(sweep / "4", "seed=4", status=None)
    for name, host, process in (
        ("0", here, job_process), ("1", here, job_process), ("2", here, 0), ("3", here, 2**22 + 1), ("4", "node", 7),
    ):  # fmt: skip
        add_job(sweep, jobs, name, [f"seed={name}"], status="running", host=host, process=process)
    (sweep / "2" / "job.json").unlink()
    write(sweep / "jobs.json", json.dumps({"metrics": [], "jobs": jobs}))
    with FileLock(sweep / "0" / ".lock"):
        found = read_sweep(sweep, now=time.time()).jobs
    assert [(job.status, job.reason) for job in found] == [
        ("running", None), ("running", "starting, or ending"), ("waiting", "not started yet"),
        ("killed", "its process is gone, and the sweep could not say why"),
        ("running", "on node, which cannot be seen from here"),
    ]  # fmt: skip
    assert read_sweep(sweep, now=NOW).jobs[4].status == "killed"  # silent for too long


@pytest.mark.parametrize("name", ["jobs.json", "0/job.json"])
def test_a_damaged_record_is_told_and_all_runs_are_shown(name: str, tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "lr")
    write(sweep / name, "{")
    page = report(sweep)
    assert "has a record that cannot be read" in page.all("ul", "notices")[0].text
    assert [row[0] for row in page.table("Every job")[1:]] == ["0", "1", "2", "3", "4", "5"]


def test_a_job_that_was_resumed_by_hand_is_as_its_run_says(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "lr")
    make_run(sweep / "4", "optimizer.lr=0.3", "seed=1", status="completed")  # its record still says failed
    assert read_sweep(sweep, now=NOW).jobs[4].status == "completed"


def test_any_folder_of_runs_is_compared(tmp_path: Path) -> None:
    for seed in (1, 2):
        make_run(tmp_path / "runs" / f"night{seed}", f"seed={seed}")
    page = report(tmp_path / "runs")
    assert page.table("Mean")[1][:3] == ["all runs", "2 runs", "0.750 \u00b1 0.000"]
    assert "started one by one" in page.section("commands")


def test_pictures_of_one_run_of_every_setting_are_shown(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "lr")
    for name in "0123":
        make_picture(sweep / name, "views")
    alts = [image.attributes["alt"] for image in report(sweep).all("img") if "src" in image.attributes]
    assert [alt.partition(":")[0] for alt in alts] == ["optimizer.lr=0.1, run 0", "optimizer.lr=0.2, run 2"]


def test_many_settings_are_told_apart_and_the_best_drawn_first(tmp_path: Path) -> None:
    for i in range(12):
        make_run(tmp_path / "lr" / str(i), f"optimizer.lr={i}", accuracies=(0.1, 0.1 + 0.05 * i))
    page = report(tmp_path / "lr")
    series = data(page)["series"]
    assert [one["label"] for one in series if one["shown"]] == [f"optimizer.lr={i}" for i in range(11, 3, -1)]
    assert len({(one["color"], one["dashes"]) for one in series}) == 12


def test_text_of_a_sweep_never_becomes_markup(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path / "lr")
    content = json.loads((sweep / "jobs.json").read_text())
    content["jobs"][0]["overrides"].append(f"note={EVIL}")
    content["jobs"][-1]["refusal"] = EVIL
    write(sweep / "jobs.json", json.dumps(content))
    write(sweep / "4" / "job.json", json.dumps({"status": "failed", "reason": EVIL, "overrides": [EVIL]}))
    page = report(sweep)
    assert len(page.all("script")) == 2
    assert page.all("body")[0].text.count(" ".join(EVIL.split())) >= 3
