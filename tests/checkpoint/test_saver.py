"""Which checkpoints are written, and which are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from lightning import Callback, LightningModule, Trainer

from spt.checkpoint.folder import complete_checkpoints
from spt.checkpoint.saver import read_index
from spt.config.errors import ConfigError
from tests.runs import build, fit

# six steps in two epochs
KEY = "callbacks.checkpoint"


class Quality(Callback):
    """Logs a number of our choice as the result of every evaluation, and one in every step."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        pl_module.log("train/quality", float(trainer.global_step % 4))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            pl_module.log("val/quality", self.values.pop(0))


def saved(folder: Path) -> list[int]:
    return list(complete_checkpoints(folder / "checkpoints"))


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        ([], [6]),
        ([f"{KEY}.keep_last=-1"], [3, 6]),
        ([f"{KEY}.keep_last=-1", f"{KEY}.every_n_epochs=2"], [6]),
        ([f"{KEY}.keep_last=-1", f"{KEY}.every_n_epochs=null"], [6]),  # the end is always saved
        ([f"{KEY}.keep_last=-1", f"{KEY}.every_n_steps=2", f"{KEY}.every_n_epochs=null"], [2, 4, 6]),
        ([f"{KEY}.keep_last=2", f"{KEY}.every_n_steps=1"], [5, 6]),
        ([f"{KEY}.keep_last=-1", "trainer.max_steps=5", "trainer.max_epochs=null"], [3, 5]),
    ],
)
def test_checkpoints_are_written_when_they_are_due_and_at_the_end(
    tmp_path: Path, words: list[str], steps: list[int]
) -> None:
    fit(build("simclr", tmp_path, "probes=none", *words))
    assert saved(tmp_path) == steps
    assert (tmp_path / "checkpoints" / "last.ckpt").resolve().name == f"step{steps[-1]:08d}.ckpt"


def test_the_best_are_kept_beside_the_newest(tmp_path: Path) -> None:
    words = (f"{KEY}.keep_best=1", f"{KEY}.monitor=val/quality", f"{KEY}.mode=min", "trainer.max_epochs=4")
    fit(build("simclr", tmp_path, *words), Quality(0.5, 0.2, 0.9, 0.2))
    assert saved(tmp_path) == [6, 12]
    assert (tmp_path / "checkpoints" / "best.ckpt").resolve().name == "step00000006.ckpt"
    index = read_index(tmp_path / "checkpoints")
    assert index["step00000006.ckpt"]["metrics"]["val/quality"] == pytest.approx(0.2)  # type: ignore[index]


def test_a_metric_of_the_steps_can_be_the_judge_too(tmp_path: Path) -> None:
    words = (f"{KEY}.keep_best=2", f"{KEY}.monitor=train/quality", f"{KEY}.every_n_steps=1", "probes=none")
    fit(build("simclr", tmp_path, *words), Quality())
    assert saved(tmp_path) == [3, 4, 6]  # after the steps that logged 2, 3 and 1


def test_an_evaluation_is_not_held_against_later_weights(tmp_path: Path) -> None:
    words = (f"{KEY}.keep_best=1", f"{KEY}.monitor=val/quality", f"{KEY}.every_n_steps=2", f"{KEY}.keep_last=1")
    fit(build("simclr", tmp_path, *words), Quality(0.9, 0.1))
    assert saved(tmp_path) == [3, 6]  # 4 was saved with 0.9 still known, and was never evaluated


def test_a_metric_that_is_not_logged_is_refused_with_those_that_are(tmp_path: Path) -> None:
    words = (f"{KEY}.keep_best=1", f"{KEY}.monitor=val/qality")
    with pytest.raises(ConfigError, match=r"val/qality is not logged by this run; it logs .*val/quality"):
        fit(build("simclr", tmp_path, *words), Quality(0.1))


@pytest.mark.parametrize("words", [[f"{KEY}.keep_last=0"], [f"{KEY}.keep_best=1"]])
def test_settings_that_keep_nothing_are_refused(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"use callbacks\.checkpoint\."):
        build("simclr", tmp_path, *words)
