"""The project's sweepers and launchers under the names by which Hydra takes them; see spt.sweep.registration."""

from __future__ import annotations

from spt.sweep import grid, launcher, search, slurm


class GridSweeper(grid.GridSweeper):
    """hydra/sweeper=grid"""


class OptunaSweeper(search.OptunaSweeper):
    """hydra/sweeper=optuna"""


class ProcessLauncher(launcher.ProcessLauncher):
    """hydra/launcher=processes"""


class SlurmLauncher(slurm.SlurmLauncher):
    """hydra/launcher=slurm"""
