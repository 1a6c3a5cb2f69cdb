"""Self-supervised pretraining, composed by Hydra. Importing this package imports no torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spt.config.compose import compose
    from spt.run import train

__all__ = ["compose", "train"]
__version__ = "0.1.0"

_HOMES = {"compose": "spt.config.compose", "train": "spt.run"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'spt' has no attribute {name!r}")
