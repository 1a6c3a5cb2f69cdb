"""Progress as a user sees it: a bar in a terminal, and one line an epoch everywhere."""

from __future__ import annotations

import logging
import sys

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar, TQDMProgressBar
from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm

from spt.reporting.record import latest_metrics, pretraining

logger = logging.getLogger(__name__)

# what is shown: the metric's name and how it reads
_LOSS, _SPEED, _ACCURACY = "train/loss", "train/images_per_second", "val/knn_top1"


def progress_display(refresh_rate: int) -> ProgressBar:
    """A bar where standard error is a terminal, else lines alone: a bar would fill a file with control characters.

    Args:
        refresh_rate: batches between updates of the bar. Each update waits for the device.
    """
    return TerminalBar(refresh_rate) if sys.stderr.isatty() else EpochLines()


class EpochLines(ProgressBar):
    """One line of log an epoch: epoch, step, loss, images per second, k-NN accuracy."""

    def disable(self) -> None:
        """Lightning silences all processes but the first; the line checks that itself."""

    def enable(self) -> None:
        """See disable."""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes the line; the epoch's validation is over by then."""
        log_epoch(trainer, pl_module)


class TerminalBar(TQDMProgressBar):
    """A bar with loss, images per second and the latest k-NN accuracy, which leaves the line of each epoch above it.

    Args:
        refresh_rate: batches between updates.
    """

    def __init__(self, refresh_rate: int) -> None:
        super().__init__(refresh_rate=refresh_rate)

    def init_sanity_tqdm(self) -> Tqdm:
        """The bar of the evaluation before the first step."""
        return self._bar("Untrained network", position=0, leave=False)

    def init_train_tqdm(self) -> Tqdm:
        """The bar that stays: it starts again with every epoch."""
        return self._bar("Training", position=0, leave=False)

    def init_validation_tqdm(self) -> Tqdm:
        """The bar of an evaluation, below the one of training."""
        return self._bar("Validation", position=1, leave=False)

    def get_metrics(self, trainer: Trainer, model: LightningModule) -> dict[str, int | str | float | dict[str, float]]:
        """What stands at the end of the bar."""
        return {**readings(trainer, model)}

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Takes the bar away for the moment in which the line is written."""
        if not self.train_progress_bar.disable:
            self.train_progress_bar.clear()
        log_epoch(trainer, pl_module)
        super().on_train_epoch_end(trainer, pl_module)

    def _bar(self, description: str, *, position: int, leave: bool) -> Tqdm:
        return Tqdm(
            desc=description,
            position=position,
            leave=leave,
            disable=self.is_disabled,
            dynamic_ncols=True,
            file=sys.stderr,
            smoothing=0,
            bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]",
        )


def readings(trainer: Trainer, module: LightningModule) -> dict[str, str]:
    """The latest loss, images/s and k-NN accuracy as text; what has not been measured is left out."""
    latest = {**pretraining(module).metrics_at_start, **latest_metrics(trainer, module)}
    shown = {_LOSS: ("loss", "{:.4g}"), _SPEED: ("images/s", "{:.0f}"), _ACCURACY: ("knn", "{:.3f}")}
    return {
        name: template.format(float(latest[metric])) for metric, (name, template) in shown.items() if metric in latest
    }


def log_epoch(trainer: Trainer, module: LightningModule) -> None:
    """Writes the line of the epoch that has just ended."""
    if not trainer.is_global_zero:
        return
    progress = pretraining(module).progress
    epochs = -(-progress.total_steps // progress.steps_per_epoch)
    values = "  ".join(f"{name} {text}" for name, text in readings(trainer, module).items())
    logger.info(
        "epoch %d/%d  step %d/%d  %s", trainer.current_epoch + 1, epochs, progress.step, progress.total_steps, values
    )
