"""What a process of a run on several devices does besides training."""

from __future__ import annotations

from pathlib import Path

from lightning import Callback, LightningModule, Trainer

from spt.config.errors import ConfigError
from spt.launch.failures import record_failure


class Rank(Callback):
    """Agrees on one run folder, and leaves its error where the parent looks.

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

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Writes the error down at once: this process may be ended while it cleans up."""
        if isinstance(exception, Exception):
            record_failure(exception)
