"""What a job's process is handed."""

from __future__ import annotations

from pathlib import Path

import spt
from spt.config.handover import read_config
from spt.sweep.job import hand_over, read_objective
from spt.sweep.process import CONFIG, going_on
from tests.sweep.folders import leave_job


def resumed(folder: Path, *words: str) -> str | None:
    """What the process of a job goes on from."""
    assert hand_over(spt.compose("data=fake", f"hydra.run.dir={folder}", *words)) == folder
    cfg = going_on(read_config((folder / CONFIG).read_text()), folder)
    assert cfg.resume is None or isinstance(cfg.resume, str)
    return cfg.resume


def test_an_interrupted_job_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    other = tmp_path / "step00000004.ckpt"
    other.touch()
    assert resumed(tmp_path / "0") is None
    assert resumed(tmp_path / "0", f"resume={other}") == str(other)
    checkpoints = tmp_path / "0" / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / "step00000008.ckpt").touch()
    assert resumed(tmp_path / "0") == "auto"


def test_the_objective_is_any_metric_of_the_run(tmp_path: Path) -> None:
    folder = leave_job(tmp_path, "0", "seed=1", metrics={"train/loss": 3.5})
    assert read_objective(folder, "train/loss") == 3.5
    assert read_objective(folder, "val/knn_top1") is None
    assert read_objective(folder, None) is None
    assert read_objective(tmp_path / "1", "train/loss") is None
