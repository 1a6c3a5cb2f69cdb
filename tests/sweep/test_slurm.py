"""Jobs in a queue, in submitit's local mode: requeued, they go on; what the queue is asked for."""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path

import pytest

from spt.config.command_line import check_command_line
from spt.config.dry_run import planned_jobs
from spt.config.errors import ConfigError
from spt.sweep.slurm import Submission
from tests.launch.commands import start, summary
from tests.sweep.folders import leave_job
from tests.sweep.test_sweep import record, rows, wait_for

QUEUE = ("-m", "hydra/launcher=slurm")


def watcher_of(sweep: Path) -> int:
    """The process that the queue has started for the one job of a sweep."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        if b"submitit.core._submit" in words and str(sweep).encode() in words:
            return int(entry.name)
    raise AssertionError("no process of the queue")


@pytest.mark.slow
def test_a_requeued_job_saves_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    sweep = tmp_path / "sweep"
    words = ("hydra.launcher.cluster=local", "trainer.max_epochs=200", "hydra.sweep.dir=sweep", "seed=1")
    process = start(tmp_path, *QUEUE, *words)
    wait_for(sweep / "0" / "checkpoints" / "last.ckpt")
    os.kill(watcher_of(sweep), signal.SIGUSR2)  # SLURM's warning before it takes the machine away
    deadline = time.monotonic() + 60
    while record(sweep / "0").starts < 2:
        assert time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.1)
    console = process.communicate(timeout=200)[0]
    assert process.returncode == 0, console
    assert rows(sweep) == {"0": "completed"}
    assert record(sweep / "0").starts == 2
    assert summary(sweep / "0")["steps"] == 600
    log = (sweep / "0" / "train.log").read_text()
    assert "stopping after this step, with a checkpoint" in log
    assert log.count("going on from") == 1


def test_a_job_in_the_queue_is_nothing_but_its_folder(tmp_path: Path) -> None:
    folder = leave_job(tmp_path, "0", "seed=1")
    loaded = pickle.loads(pickle.dumps(Submission(folder, tmp_path, ["seed=1"])))
    assert loaded() == "completed"  # it was, and is not run again
    assert record(folder).starts == 1


def test_a_queue_is_checked_without_the_devices_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spt.config.sweep.is_installed", lambda package: True)
    monkeypatch.setattr("spt.config.sweep.which", lambda program: f"/usr/bin/{program}")
    gpus = ("trainer.devices=8", "trainer.accelerator=gpu", "strategy=ddp", "data=fake")
    assert [job.refusal for job in planned_jobs((*QUEUE, *gpus, "precision=16-mixed", "seed=1,2"))] == [None, None]
    with pytest.raises(ConfigError, match="devices-present"):
        planned_jobs(("-m", *gpus))
    with pytest.raises(ConfigError, match="the queue must be told"):
        planned_jobs((*QUEUE, "trainer.devices=auto", "data=fake"))


@pytest.mark.parametrize(("missing", "advice"), [("submitit", "pip install"), ("srun", "hydra.launcher.cluster=local")])
def test_without_a_queue_a_sweep_is_refused(
    missing: str, advice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("spt.config.sweep.is_installed", lambda package: package != missing)
    monkeypatch.setattr("spt.config.sweep.which", lambda program: None if program == missing else program)
    planned_jobs.cache_clear()  # the machine is another one
    with pytest.raises(SystemExit) as end:
        check_command_line([*QUEUE, "data=fake", "seed=3,4"])
    assert end.value.code == 2
    assert missing in capsys.readouterr().err
