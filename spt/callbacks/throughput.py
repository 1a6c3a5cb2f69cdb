"""How fast training goes, and whether the data keeps up."""

from __future__ import annotations

import time
from collections.abc import Mapping

from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from spt.reporting.record import pretraining
from spt.types import Sample


class Throughput(Callback):
    """train/images_per_second over all processes, and train/data_wait: the share of time spent waiting for batches.

    Both are means since the last row of metrics; time spent in validation does not count. Nothing waits for the
    device, so on a GPU a window of a few steps is only roughly right.

    Args:
        log_every_n_steps: optimizer steps between rows of metrics, as the trainer has it.

    Attributes:
        images: images seen since the start of this process, over all processes.
        seconds: time spent training them.
    """

    def __init__(self, *, log_every_n_steps: int) -> None:
        self.log_every_n_steps = log_every_n_steps
        self.images = 0
        self.seconds = 0.0
        self._step = 0
        self._window_images = 0
        self._window_seconds = 0.0
        self._window_waited = 0.0
        self._resumed_at = 0.0

    @property
    def images_per_second(self) -> float:
        """Mean over all training so far, over all processes; 0 before the first batch."""
        return self.images / self.seconds if self.seconds > 0 else 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Starts the clock: an epoch that a resume goes on with has no start of its own."""
        self._resumed_at = time.perf_counter()
        self._step = trainer.global_step

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Starts the clock."""
        self._resumed_at = time.perf_counter()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Starts the clock again after a validation pass."""
        self._resumed_at = time.perf_counter()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Sample, batch_idx: int) -> None:
        """Counts the time since the last batch as waiting for this one."""
        if self._window_images == 0:
            self._window_seconds = self._window_waited = 0.0
        self._window_waited += self._lap()

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, object] | None,
        batch: Sample,
        batch_idx: int,
    ) -> None:
        """Logs the window so far, and closes it with the step at which a row of metrics is written."""
        self._lap()
        images = len(batch.labels) * trainer.world_size
        self.images += images
        self._window_images += images
        pretraining(pl_module).note(
            {
                "train/images_per_second": self._window_images / self._window_seconds,
                "train/data_wait": self._window_waited / self._window_seconds,
            }
        )
        stepped, self._step = trainer.global_step != self._step, trainer.global_step
        if stepped and self._step % self.log_every_n_steps == 0:  # not at the other micro-batches of that step
            self._window_images = 0

    def _lap(self) -> float:
        now = time.perf_counter()
        elapsed = now - self._resumed_at
        self._resumed_at = now
        self.seconds += elapsed
        self._window_seconds += elapsed
        return elapsed
