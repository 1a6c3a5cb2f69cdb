from __future__ import annotations

import time
from pathlib import Path

import pytest
from lightning import Callback, LightningModule, Trainer

from spt.callbacks.throughput import Throughput
from spt.reporting.metrics_file import MetricsFile, read_metrics
from spt.reporting.quiet import quiet
from tests.callbacks.tiny import TinyModule, fit


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quiet()


class SlowStep(Callback):
    """Spends 20 ms in every batch and 300 ms in every validation pass."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.started_at = time.perf_counter()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.elapsed = time.perf_counter() - self.started_at

    def on_before_zero_grad(self, trainer: Trainer, pl_module: LightningModule, optimizer: object) -> None:
        time.sleep(0.02)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        time.sleep(0.3)


def test_images_are_counted_over_the_whole_run(tmp_path: Path) -> None:
    throughput = Throughput(log_every_n_steps=1)
    fit(TinyModule(), tmp_path, [throughput], max_epochs=2, num_batches=4)
    assert throughput.images == 2 * 4 * 6


def test_validation_does_not_slow_the_images_per_second(tmp_path: Path) -> None:
    throughput, slow = Throughput(log_every_n_steps=1), SlowStep()
    fit(TinyModule(), tmp_path, [throughput, slow], max_epochs=3, num_batches=4)
    assert 12 * 0.02 < throughput.seconds < slow.elapsed - 3 * 0.3
    assert throughput.images_per_second == pytest.approx(72 / throughput.seconds)


def test_every_row_of_metrics_has_the_speed_of_its_window(tmp_path: Path) -> None:
    callbacks = [Throughput(log_every_n_steps=1), SlowStep()]
    fit(TinyModule(), tmp_path, callbacks, loggers=[MetricsFile(tmp_path)], max_epochs=1, num_batches=5)
    rows = [row for row in read_metrics(tmp_path / "metrics.csv") if "train/loss" in row]
    assert len(rows) == 5
    assert all(0 < row["train/images_per_second"] < 6 / 0.02 for row in rows)
    assert all(0 <= row["train/data_wait"] < 1 for row in rows)


def test_a_window_is_that_of_whole_optimizer_steps(tmp_path: Path) -> None:
    """Four micro-batches of 20 ms a step: a row tells of all four."""

    class SlowBatch(Callback):
        def on_train_batch_start(self, *_: object) -> None:
            time.sleep(0.02)

    callbacks = [SlowBatch(), Throughput(log_every_n_steps=1)]
    loggers = [MetricsFile(tmp_path)]
    fit(TinyModule(), tmp_path, callbacks, loggers=loggers, max_epochs=1, num_batches=8, accumulate_grad_batches=4)
    rows = [row for row in read_metrics(tmp_path / "metrics.csv") if "train/loss" in row]
    assert len(rows) == 2
    assert all(6 / 0.1 < row["train/images_per_second"] < 6 / 0.02 for row in rows)


def test_an_unused_callback_has_no_speed() -> None:
    assert Throughput(log_every_n_steps=7).images_per_second == 0.0
