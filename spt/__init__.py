"""Self-supervised pretraining, composed by Hydra. Importing this package imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spt.config.compose import compose

__all__ = ["compose"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "compose":
        from spt.config.compose import compose

        return compose
    raise AttributeError(f"module 'spt' has no attribute {name!r}")
