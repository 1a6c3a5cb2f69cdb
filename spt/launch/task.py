"""What a process does with its config, by name, so that one process can tell another."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    with unavailable("wandb"):  # timm would import it for scripts of its own, a second and more for every process
        function = getattr(import_module(module), name)
    value: float | None = function(cfg)
    return value


@contextmanager
def unavailable(package: str) -> Iterator[None]:
    """Makes an import of `package` fail, as if it were not installed, unless it has been imported already."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # so the import system has it: not to be found
    try:
        yield
    finally:
        del sys.modules[package]
