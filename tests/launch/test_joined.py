"""Under torchrun and srun: the processes that are there, one folder, nothing started."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.launch.commands import fault, start, summary

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
SHORT = ("trainer.devices=2", "trainer.max_epochs=1")


def only(folder: Path) -> Path:
    """The one run folder below runs/, wherever it is."""
    (found,) = [file.parent for file in folder.glob("runs/**/summary.json")]
    logs = list(folder.glob("runs/**/train.log"))
    assert logs == [found / "train.log"], "a folder of another rank"
    return found


def srun(folder: Path, port: int, *words: str) -> list[subprocess.Popen[str]]:
    """Two tasks of one step, as SLURM starts them."""
    tasks = []
    for task in range(2):
        variables = {
            "SLURM_JOB_ID": "123", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2",
            "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task), "SLURM_NODEID": "0", "SLURM_NODELIST": "localhost",
            "SLURM_JOB_NAME": "train", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port),
        }  # fmt: skip
        tasks.append(start(folder, *words, variables=variables))
        time.sleep(0.3)  # tasks of a busy machine do not start in the same second
    return tasks


def free_port() -> int:
    """A port that nobody listens to, low enough for another one beside it."""
    for port in range(21_000, 25_000):
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) != 0:
                return port
    raise AssertionError("no port is free")


@pytest.mark.slow
def test_ranks_of_torchrun_share_the_folder_of_rank_zero(tmp_path: Path) -> None:
    """Trap 89."""
    process = start(tmp_path, *SHORT, launcher=TORCHRUN)
    console = process.communicate(timeout=200)[0]
    assert process.returncode == 0, console
    folder = only(tmp_path)
    assert (summary(folder)["world_size"], summary(folder)["steps"]) == (2, 3)
    assert console.count("epoch 1/1") == (folder / "train.log").read_text().count("epoch 1/1") == 1


@pytest.mark.slow
def test_tasks_of_srun_share_the_folder_of_rank_zero(tmp_path: Path) -> None:
    tasks = srun(tmp_path, free_port(), *SHORT)
    consoles = [task.communicate(timeout=200)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], "\n".join(consoles)
    assert summary(only(tmp_path))["world_size"] == 2
    assert "epoch 1/1" in consoles[0]
    assert "epoch 1/1" not in consoles[1]


@pytest.mark.slow
def test_a_rank_of_torchrun_that_fails_ends_the_run(tmp_path: Path) -> None:
    words = fault(tmp_path, rank=1, step=1, kind="raise")
    process = start(tmp_path, *words, *SHORT, launcher=TORCHRUN)
    console = process.communicate(timeout=200)[0]
    assert process.returncode == 1
    assert "a fault of this rank alone" in console
    assert summary(only(tmp_path))["status"] == "failed"


def test_a_wrong_number_of_tasks_is_refused_by_name_once(tmp_path: Path) -> None:
    tasks = srun(tmp_path, free_port(), "trainer.devices=4")
    consoles = [task.communicate(timeout=60)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [2, 2]
    assert "slurm-tasks-as-asked: SLURM started 2 tasks" in consoles[0]
    assert "asks for 4 processes" in consoles[0]
    assert consoles[1] == ""
    assert not (tmp_path / "runs").exists()


def test_a_sweep_under_a_launcher_is_refused(tmp_path: Path) -> None:
    tasks = srun(tmp_path, free_port(), "-m", "trainer.devices=2", "seed=1,2")
    consoles = [task.communicate(timeout=60)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [2, 2]
    assert "srun has started 2 already" in consoles[0]
    assert "try: python train.py -m" in consoles[0]
