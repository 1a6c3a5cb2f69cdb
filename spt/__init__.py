"""Self-supervised pretraining, composed by Hydra. Importing this package imports no torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spt.config.compose import compose
    from spt.launch.start import train
    from spt.run import train as train_here

__all__ = ["compose", "train", "train_here"]
__version__ = "0.1.0"

_HOMES = {
    "compose": ("spt.config.compose", "compose"),
    "train": ("spt.launch.start", "train"),  # starts as many processes as there are devices
    "train_here": ("spt.run", "train"),  # in this process
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        module, attribute = _HOMES[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'spt' has no attribute {name!r}")
