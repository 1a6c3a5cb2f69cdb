"""What a process of a run on several devices does besides training."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import FrameType

from lightning import Callback, LightningModule, Trainer

from spt.config.errors import ConfigError
from spt.launch.failures import record_failure


class Rank(Callback):
    """Agrees on one run folder, stops together with the other ranks, and leaves its error where the parent looks.

    Args:
        folder: the run folder as this process knows it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Compares the folder with that of rank 0.

        Raises:
            ConfigError: they differ; what the ranks write would not be one run.
        """
        folder = trainer.strategy.broadcast(str(self.folder))
        if folder != str(self.folder):
            raise ConfigError(
                f"Rank {trainer.global_rank} writes to {self.folder}, and rank 0 to {folder}: one run has one folder.\n"
                f"    try: hydra.run.dir={folder}"
            )

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """From here on signals stop the run in order: Lightning has set its own handler just before."""
        _stop_in_step(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The same, for runs without a sanity check."""
        _stop_in_step(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Writes the error down at once: this process may be ended while it cleans up."""
        if isinstance(exception, Exception):
            record_failure(exception)


def _stop_in_step(trainer: Trainer) -> None:
    """Lets Ctrl-C and SIGTERM end training between two steps, the same two on every rank.

    Lightning's handler starts a collective of its own in the middle of whatever the rank is doing, and ranks that are
    at different places then wait for each other. Its loop asks rank 0 before every step anyway.
    """
    if trainer.world_size == 1 or threading.current_thread() is not threading.main_thread():
        return
    owner = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:
            os._exit(128 + number)  # a data worker, forked with this handler
        trainer._signal_connector.received_sigterm = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
