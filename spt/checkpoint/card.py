"""What wrote a checkpoint, inside the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import cast

import torch
from lightning import Callback, LightningModule, Trainer

from spt.checkpoint.progress import RUN
from spt.checkpoint.reading import read_plain
from spt.checkpoint.writing import REST
from spt.reporting.record import latest_metrics


class Card(Callback):
    """Writes down in every checkpoint which run it is of, as plain data under "run".

    Args:
        config: of the run, resolved, as YAML.
        choices: the option chosen in each group.
        ids: of the run in other places, such as a logger's, by name.
    """

    def __init__(self, config: str, choices: Mapping[str, str], ids: Mapping[str, str]) -> None:
        self.config = config
        self.choices = dict(choices)
        self.ids = dict(ids)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, object]) -> None:
        """Adds step, epoch, strategy, world size, versions, config and the latest metrics."""
        metrics = {name: float(value) for name, value in latest_metrics(trainer, pl_module).items()}
        checkpoint[RUN] = {
            "format": 1,
            "step": trainer.global_step,
            "epoch": trainer.current_epoch,
            "total_steps": int(trainer.estimated_stepping_batches),
            "world_size": trainer.world_size,
            "accumulate_grad_batches": trainer.accumulate_grad_batches,
            "choices": self.choices,
            "config": self.config,
            "ids": self.ids,
            "metrics": metrics,
            "versions": {
                "spt": version("spt-ssl"),
                "torch": str(torch.__version__),
                "lightning": version("lightning"),
                "timm": version("timm"),
            },
        }


def ids_in(checkpoint: Path) -> dict[str, str]:
    """The run's ids in other places, from its checkpoint; none in those that DeepSpeed wrote.

    Raises:
        CheckpointError: it cannot be read.
    """
    file = checkpoint / REST if checkpoint.is_dir() else checkpoint
    if not file.exists():
        return {}
    card = cast("dict[str, dict[str, str]]", read_plain(file).get(RUN, {}))
    return card.get("ids", {})
