"""One run from the command to the last line: what is on the screen, and what is in the folder."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch import Tensor

import spt
from spt.reporting.metrics_file import read_metrics
from tests.runs import VIT, build, fit, state

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = [
    "status", "method", "backbone", "data", "strategy", "precision", "world_size", "global_batch_size", "epochs",
    "steps", "seconds", "images_per_second", "metrics_at_start", "metrics",
]  # fmt: skip
MEASURED = {"val/knn_top1", "val/linear_top1", "collapse/embedding_std", "collapse/rankme"}
START = ["method", "backbone", "data", "devices", "batch", "lr", "steps", "folder"]  # first words of the start block
SMALL = (
    "method=simclr", "data=digits", *VIT, "data.bank_size=100", "trainer.accelerator=cpu",
    "optimizer.lr_schedule.warmup_epochs=0",
)  # fmt: skip
# a network this small starts where the watch for collapse would speak up
UNWATCHED = ("probes.collapse.min_embedding_std=0", "probes.collapse.min_rankme=0")


def last_line(folder: Path) -> str:
    """A regular expression for where things are and how good the embedding is."""
    return rf"{re.escape(str(folder))}  val/knn_top1 0\.\d{{3}} -> [01]\.\d{{3}}"


def in_process(folder: Path, *words: str) -> float | None:
    """A run as a notebook starts it."""
    return spt.train(spt.compose(*SMALL, *UNWATCHED, "trainer.log_every_n_steps=1", *words, f"hydra.run.dir={folder}"))


def test_a_run_leaves_everything_in_its_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        value = in_process(tmp_path, "trainer.max_epochs=-1", "trainer.max_steps=4")
    told = [record.getMessage() for record in caplog.records if record.name == "spt.run"]
    assert [line.split()[0] for line in told[0].splitlines()] == START
    assert re.fullmatch(last_line(tmp_path), told[-1])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert list(summary) == SUMMARY
    assert (summary["status"], summary["steps"], summary["metrics"]["val/knn_top1"]) == ("completed", 4, value)
    assert summary["metrics_at_start"].keys() == MEASURED
    assert summary["metrics"].keys() > MEASURED | {"train/loss"}
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert files - {name for name in files if name.startswith("checkpoints/")} == {
        ".lock", "config_resolved.yaml", "metrics.csv", "summary.json", "plots/curves.png", "plots/views.png",
        "plots/attention.png", "plots/tokens.png", "plots/neighbours.png", "plots/embedding_map.png",
    }  # fmt: skip
    assert "checkpoints/last.ckpt" in files
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.csv")] == [0, 1, 2, 3, 4]


def test_the_config_in_the_folder_says_all_that_ran(tmp_path: Path) -> None:
    """Every reference is resolved: the learning rate is a number."""
    build("byol", tmp_path, "trainer.max_epochs=-1", "trainer.max_steps=1", "probes=none").fit()
    cfg = OmegaConf.load(tmp_path / "config_resolved.yaml")
    assert "${" not in (tmp_path / "config_resolved.yaml").read_text()
    assert cfg.optimizer.lr == pytest.approx(0.45 * 8 / 256)


def test_a_run_without_probes_has_no_objective(tmp_path: Path) -> None:
    assert build("simclr", tmp_path, "trainer.max_epochs=1", "probes=none").fit() is None
    assert json.loads((tmp_path / "summary.json").read_text())["metrics_at_start"] == {}


def weights_of(folder: Path, seed: int) -> dict[str, Tensor]:
    """Weights after three steps from a seed."""
    return state(fit(build("byol", folder, f"seed={seed}", "trainer.max_epochs=1", "probes=none")))


def test_a_seed_fixes_all_weights_and_another_gives_others(tmp_path: Path) -> None:
    """Several runs in one process leave nothing behind that the next one sees."""
    first = weights_of(tmp_path / "first", 1)
    torch.rand(5)
    again, other = weights_of(tmp_path / "again", 1), weights_of(tmp_path / "other", 2)
    name = "predictor.0.weight"
    assert all(torch.equal(value, again[key]) for key, value in first.items())
    assert not torch.equal(first[name], other[name])


def test_two_runs_in_one_process_have_folders_of_their_own(tmp_path: Path) -> None:
    for name in ("first", "second"):
        in_process(tmp_path / name, "trainer.max_epochs=-1", "trainer.max_steps=1")
    first, second = (read_metrics(tmp_path / name / "metrics.csv") for name in ("first", "second"))
    assert [row["val/knn_top1"] for row in first if "val/knn_top1" in row] == [
        row["val/knn_top1"] for row in second if "val/knn_top1" in row
    ]


def train_py(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line, with every warning of every library shown."""
    return subprocess.run(
        [sys.executable, "-W", "default", str(ROOT / "train.py"), *SMALL, *words, "hydra.run.dir=run"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_screen_holds_the_runs_own_lines_and_nothing_else(tmp_path: Path) -> None:
    """No advert, no repeated line, no warning; and train.log holds the same."""
    done = train_py(tmp_path, *UNWATCHED, "trainer.max_epochs=2")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*START, "epoch", "epoch", str(tmp_path / "run")]
    assert re.fullmatch(last_line(tmp_path / "run"), lines[-1])
    log = (tmp_path / "run" / "train.log").read_text().splitlines()
    assert [line.removeprefix(" ".join(line.split()[:3]) + " ") for line in log][-3:] == lines[-3:]
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        ".hydra", ".lock", "train.log", "config_resolved.yaml", "metrics.csv", "summary.json", "plots", "checkpoints",
    }  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_a_failed_run_ends_with_status_1_and_its_traceback_in_the_log(tmp_path: Path) -> None:
    done = train_py(tmp_path, "optimizer.lr=1e30", "probes=none")
    assert done.returncode == 1
    assert "spt.finite.NonFiniteLossError: The loss of optimizer step" in done.stdout
    assert (done.stdout + done.stderr).count("Traceback") == 1
    log = (tmp_path / "run" / "train.log").read_text()
    assert "Traceback" in log
    assert "First tensor that is not finite" in log
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "failed"
