"""What a process does with its config, by name, so that one process can tell another."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

PRETRAINING = "spt.run.train"
FINETUNING = "spt.evaluate.finetune"


def perform(task: str, cfg: DictConfig) -> float | None:
    """Imports what the name stands for, and torch with it, and calls it with the config.

    Returns:
        The figure that it ends with.
    """
    module, _, name = task.rpartition(".")
    value: float | None = getattr(import_module(module), name)(cfg)
    return value
