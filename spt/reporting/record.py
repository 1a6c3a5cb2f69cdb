"""The one way in which metrics of an evaluation are written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

from lightning import LightningModule, Trainer
from torch import Tensor

from spt.types import Batch, Progress


class Pretraining(Protocol):
    """What probes, callbacks and reports read of the module being trained.

    Attributes:
        last_batch: views and masks of the latest micro-batch.
        step_metrics: what the latest micro-batch measured, by name.
        metrics_at_start: metrics of the untrained network.
    """

    last_batch: Batch | None
    step_metrics: dict[str, Tensor | float]
    metrics_at_start: dict[str, float]

    @property
    def progress(self) -> Progress:
        """Where training is: the optimizer step about to be taken, of how many."""

    def note(self, metrics: Mapping[str, Tensor | float]) -> None:
        """Keeps what was measured of this micro-batch, keyed "stage/name"."""


def pretraining(module: LightningModule) -> Pretraining:
    """The module that Lightning hands to hooks, as what it is here."""
    return cast(Pretraining, module)


def latest_metrics(trainer: Trainer, module: LightningModule) -> dict[str, Tensor | float]:
    """The latest value of every metric, by name: of this step, and of the latest evaluation."""
    logged = {name: value for name, value in trainer.callback_metrics.items() if "/" in name}
    return {**logged, **pretraining(module).step_metrics}


def record(trainer: Trainer, module: LightningModule, metrics: dict[str, float]) -> None:
    """Writes down what an evaluation measured, under the number of optimizer steps that made the weights it looked at.

    Before the first step (Lightning's sanity check, during which it drops whatever is logged) the values become the
    module's `metrics_at_start` and row 0 of every logger.

    Args:
        metrics: keyed "stage/name"; the same values on every process.
    """
    if trainer.sanity_checking:
        pretraining(module).metrics_at_start.update(metrics)
        for logger in trainer.loggers:
            logger.log_metrics(dict(metrics), step=0)
            logger.save()
        return
    # Lightning would file an evaluation after n steps under step n - 1, together with the loss of the weights before it
    clock = {"step": float(trainer.global_step), "epoch": float(trainer.current_epoch)}
    # the maximum of equal values is that value to the bit, which a mean over ranks is not
    module.log_dict({**metrics, **clock}, reduce_fx="max", sync_dist=True)
