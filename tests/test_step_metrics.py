"""What a step measures, and when Lightning hears of it."""

from __future__ import annotations

from pathlib import Path

from lightning import Callback, LightningModule, Trainer

from spt.reporting.metrics_file import read_metrics
from spt.reporting.record import pretraining
from tests.runs import EPOCHS, STEPS_PER_EPOCH, build, fit


class Seen(Callback):
    """Notes the loss of every step from the module."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self.losses.append(float(pretraining(pl_module).step_metrics["train/loss"]))


def test_rows_hold_all_metrics_of_their_own_step(tmp_path: Path) -> None:
    seen = Seen()
    run = fit(build("byol", tmp_path, "trainer.log_every_n_steps=2", "probes=none"), seen)
    rows = {int(row["step"]): row for row in read_metrics(run.metrics_file.path) if "train/loss" in row}
    assert len(seen.losses) == STEPS_PER_EPOCH * EPOCHS
    assert len(set(seen.losses)) == len(seen.losses)
    assert sorted(rows) == [1, 3, 5], "every second step has a row, under Lightning's count from 0"
    for step, row in rows.items():
        assert row["train/loss"] == float(f"{seen.losses[step]:.9g}")
        assert {"train/lr", "train/grad_norm", "train/teacher_momentum", "train/images_per_second"} <= row.keys()
