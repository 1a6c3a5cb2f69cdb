"""A launcher that trains nothing: it leaves the folders that jobs would leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from spt.config.sweep import own_words
from spt.sweep.record import JobStatus
from tests.sweep.folders import leave_job


class Ending(NamedTuple):
    """What becomes of a job."""

    status: JobStatus
    metrics: dict[str, float]


class Desk(Launcher):
    """Jobs end as they are told to.

    Args:
        sweep: folder of the sweep.
        ending: of a job, from its overrides by key.

    Attributes:
        launched: the overrides of every job, in order.
    """

    def __init__(self, sweep: Path, ending: Callable[[dict[str, str]], Ending]) -> None:
        self.sweep, self.ending = sweep, ending
        self.launched: list[list[str]] = []

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Needs nothing."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Leaves a folder for every job."""
        for words in job_overrides:
            folder = next(word.partition("=")[2] for word in words if word.startswith("hydra.sweep.subdir="))
            own = own_words(words)
            self.launched.append(own)
            values = {key: value for key, _, value in (word.partition("=") for word in own)}
            ending = self.ending(values)
            leave_job(self.sweep, folder, *own, status=ending.status, metrics=ending.metrics)
        return []
