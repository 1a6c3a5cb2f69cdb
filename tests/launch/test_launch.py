"""One command, two processes: one folder, one log, one ending."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from spt.checkpoint.folder import complete_checkpoints
from spt.reporting.metrics_file import read_metrics
from tests.launch.commands import fault, ranks_of, start, start_plain, summary, wait_for_steps
from tests.reporting.wandb_file import offline_files, read

LONG = ("trainer.max_epochs=100000", "trainer.devices=2")


def test_two_devices_are_one_run_with_one_folder_and_one_log(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / 'a "b, c=d'
    word = f"""hydra.run.dir='{folder}'"""
    process = start(tmp_path, word, "trainer.devices=2", "trainer.max_epochs=2", "seed=7")
    console = process.communicate()[0]
    assert process.returncode == 0, console
    assert (summary(folder)["status"], summary(folder)["world_size"], summary(folder)["steps"]) == ("completed", 2, 6)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [folder.name]
    log = (folder / "train.log").read_text()
    for line in ("devices   2 x cpu", "epoch 1/2", "epoch 2/2"):
        assert log.count(line) == console.count(line) == 1
    assert ranks_of(process.pid) == []


def test_the_first_rank_to_fail_ends_the_run_and_is_the_one_that_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = fault(tmp_path, rank=1, step=2, kind="raise")
    process = start(tmp_path, *words, f"hydra.run.dir={folder}", *LONG)
    console = process.communicate()[0]
    assert process.returncode == 1
    assert summary(folder)["status"] == "failed"
    assert summary(folder)["error"] == "ZeroDivisionError: a fault of this rank alone"
    assert "Rank 1 of 2 failed" in console
    assert console.count("Traceback") == 1
    assert "in on_train_batch_end" in console
    assert "closed by peer" not in console
    assert "a fault of this rank alone" in (folder / "train.log").read_text()
    assert ranks_of(process.pid) == []


def test_control_c_stops_both_ranks_between_two_steps(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(tmp_path, f"hydra.run.dir={folder}", *LONG)
    wait_for_steps(folder, process, steps=3)
    assert len(ranks_of(process.pid)) == 2
    process.send_signal(signal.SIGINT)
    console = process.communicate(timeout=40)[0]
    assert process.returncode == 130, console
    assert summary(folder)["status"] == "preempted"
    assert "error" not in summary(folder)
    assert "Traceback" not in console
    assert ranks_of(process.pid) == []


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_run_with_a_summary(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(tmp_path, f"hydra.run.dir={folder}", *LONG)
    wait_for_steps(folder, process, steps=2)
    killed_at = time.monotonic()
    os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    console = process.communicate(timeout=60)[0]
    assert time.monotonic() - killed_at < 30
    assert process.returncode == 1
    assert summary(folder)["status"] == "failed"
    assert "was killed by SIGKILL" in str(summary(folder)["error"])
    assert "was killed by SIGKILL" in console
    assert ranks_of(process.pid) == []


@pytest.mark.slow
def test_rank_zero_that_is_killed_leaves_the_summary_to_the_parent(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(tmp_path, *fault(tmp_path, rank=0, step=2, kind="kill"), f"hydra.run.dir={folder}", *LONG)
    process.communicate(timeout=120)
    assert process.returncode == 1
    assert summary(folder)["status"] == "failed"
    assert str(summary(folder)["error"]).startswith("rank 0 was killed by SIGKILL")
    assert summary(folder)["strategy"] == "ddp"
    assert ranks_of(process.pid) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["raise", "desert", "kill"])
def test_a_rank_that_fails_leaves_wandb_one_run_that_has_failed(tmp_path: Path, kind: str) -> None:
    """Rank 0 alone has a run, and closes it even where it waits for a rank that is gone."""
    folder, faulty = tmp_path / "run", fault(tmp_path, rank=1, step=2, kind=kind)
    no_key = {"HOME": str(tmp_path), "WANDB_API_KEY": ""}
    process = start(tmp_path, *faulty, f"hydra.run.dir={folder}", "logger=wandb", *LONG, variables=no_key)
    console = process.communicate(timeout=120)[0]
    assert process.returncode == 1, console
    (file,) = offline_files(folder)
    told = read(file)
    assert (len(told.starts), told.exits) == (1, [1])
    assert told.steps() in ([0], [0, 1])


@pytest.mark.slow
def test_sigterm_stops_the_run_as_preempted(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(tmp_path, f"hydra.run.dir={folder}", *LONG)
    wait_for_steps(folder, process, steps=3)
    process.terminate()
    process.communicate(timeout=40)
    assert process.returncode == 143
    assert summary(folder)["status"] == "preempted"
    assert ranks_of(process.pid) == []


@pytest.mark.slow
def test_a_parent_that_is_killed_leaves_no_rank_behind(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(tmp_path, f"hydra.run.dir={folder}", *LONG)
    wait_for_steps(folder, process, steps=1)
    assert len(ranks_of(process.pid)) == 2
    process.kill()
    process.communicate(timeout=20)
    deadline = time.monotonic() + 5
    while ranks_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ranks_of(process.pid) == []


@pytest.mark.slow
def test_a_mistake_that_only_a_rank_can_see_is_told_without_a_traceback(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(tmp_path, *fault(tmp_path, rank=1, step=1, kind="refuse"), f"hydra.run.dir={folder}", *LONG)
    console = process.communicate(timeout=120)[0]
    assert process.returncode == 2
    assert "data.source.root=nowhere cannot be read." in console
    assert "Traceback" not in console


@pytest.mark.slow
def test_every_job_of_a_sweep_has_processes_of_its_own(tmp_path: Path) -> None:
    """Trap 89."""
    words = ["-m", "trainer.devices=1,2", "trainer.max_epochs=1", "hydra.sweep.dir=sweep", "seed=3"]
    process = start(tmp_path, *words)
    console = process.communicate(timeout=300)[0]
    assert process.returncode == 0, console
    folders = sorted(path.name for path in (tmp_path / "sweep").iterdir() if path.is_dir())
    assert folders == ["0", "1"]
    for job, world_size in enumerate((1, 2)):
        folder = tmp_path / "sweep" / str(job)
        assert (summary(folder)["world_size"], summary(folder)["steps"]) == (world_size, 3)
        assert (folder / "train.log").read_text().count("epoch 1/1") == 1


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_a_time_limit_is_heard_by_both_ranks_and_the_run_folder_goes_on(tmp_path: Path, strategy: str) -> None:
    """SLURM's SIGUSR1, at the parent: both ranks save the same step; the same words and the folder go on from it."""
    folder = tmp_path / "run"
    process = start(tmp_path, f"hydra.run.dir={folder}", *LONG, f"strategy={strategy}")
    wait_for_steps(folder, process, steps=3)
    process.send_signal(signal.SIGUSR1)
    console = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + signal.SIGUSR1, console
    stopped = summary(folder)
    assert stopped["status"] == "preempted"
    assert list(complete_checkpoints(folder / "checkpoints")) == [stopped["steps"]]
    epochs = int(str(stopped["epochs"])) + 2
    again = start_plain(tmp_path, f"resume={folder}", f"trainer.max_epochs={epochs}")
    console = again.communicate()[0]
    assert again.returncode == 0, console
    assert f"going on from {folder}/checkpoints/step{stopped['steps']:08d}.ckpt" in console
    assert (summary(folder)["status"], summary(folder)["epochs"]) == ("completed", epochs)
    rows = read_metrics(folder / "metrics.csv")
    assert [row["step"] for row in rows] == sorted({row["step"] for row in rows})
