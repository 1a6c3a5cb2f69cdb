"""Makes the sweepers and launchers of this project known to Hydra."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from hydra.core.plugins import Plugins

# Hydra takes sweepers and launchers from the namespace hydra_plugins only. Ours is a folder within this package, found
# in a checkout and in an installation alike.
_FOLDER = Path(__file__).parent / "plugins"
_NAMES = ("GridSweeper", "OptunaSweeper", "ProcessLauncher", "SlurmLauncher")


def register() -> None:
    """Call it before Hydra runs; may be called again."""
    if str(_FOLDER) not in sys.path:
        sys.path.append(str(_FOLDER))
    module = import_module("hydra_plugins.spt_sweep")
    for name in _NAMES:
        Plugins.instance().register(getattr(module, name))
