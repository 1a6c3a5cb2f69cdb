"""What a job's process is handed."""

from __future__ import annotations

from pathlib import Path

import spt
from spt.config.handover import read_config
from spt.sweep.job import hand_over, read_objective
from spt.sweep.process import CONFIG
from tests.sweep.folders import leave_job


def handed_over(folder: Path, *words: str) -> str | None:
    cfg = spt.compose("data=fake", f"hydra.run.dir={folder}", *words)
    assert hand_over(cfg) == folder
    resume = read_config((folder / CONFIG).read_text()).resume
    assert resume is None or isinstance(resume, str)
    return resume


def test_an_interrupted_job_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "other.ckpt").touch()
    assert handed_over(tmp_path / "0") is None
    assert handed_over(tmp_path / "0", f"resume={tmp_path}/other.ckpt") == str(tmp_path / "other.ckpt")
    checkpoint = tmp_path / "0" / "checkpoints" / "last.ckpt"
    checkpoint.parent.mkdir()
    checkpoint.touch()
    assert handed_over(tmp_path / "0") == str(checkpoint)
    assert handed_over(tmp_path / "0", f"resume={tmp_path}/other.ckpt") == str(checkpoint)


def test_the_objective_is_any_metric_of_the_run(tmp_path: Path) -> None:
    folder = leave_job(tmp_path, "0", "seed=1", metrics={"train/loss": 3.5})
    assert read_objective(folder, "train/loss") == 3.5
    assert read_objective(folder, "val/knn_top1") is None
    assert read_objective(folder, None) is None
    assert read_objective(tmp_path / "1", "train/loss") is None
