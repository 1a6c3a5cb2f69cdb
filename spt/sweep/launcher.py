"""Jobs of a sweep on this machine, each in a process of its own and on devices of its own, several at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from spt.sweep.job import JobProcess, stop_signals_raise
from spt.sweep.preparation import Prepared, Sweep
from spt.sweep.slots import Slot, divide

logger = logging.getLogger(__name__)
_PACE = 0.1
"""Seconds between two looks at the processes."""


class _Running(NamedTuple):
    job: Prepared
    process: JobProcess
    slot: Slot


class ProcessLauncher(Launcher):
    """Hydra's launcher that is chosen by hydra/launcher=processes.

    A job that fails, exits or is killed gives a JobReturn that says so; the others go on. The sweep ends early only
    when this process is told to stop, and then its jobs end in order first.
    """

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra with the config of the sweep as a whole."""
        self.sweep = Sweep(hydra_context, task_function, config)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs the jobs and gives what came of each, in order.

        Raises:
            SystemExit: this process was told to stop.
        """
        waiting = self.sweep.begin(job_overrides, initial_job_idx)
        free = divide(self.sweep.settings.parallel)
        running: list[_Running] = []
        returns: dict[int, JobReturn] = {}
        with stop_signals_raise():
            try:
                while waiting or running:
                    while waiting and free:
                        running.append(self._start(*waiting.pop(0), free.pop(0)))
                    time.sleep(_PACE)
                    for ended in [entry for entry in running if entry.process.has_ended()]:
                        running.remove(ended)
                        free.append(ended.slot)
                        returns[ended.job.number] = self.sweep.tell_end(ended.job, ended.process.finish())
            finally:
                self._stop(running)
        return [returns[number] for number in sorted(returns)]

    def _start(self, number: int, overrides: Sequence[str], slot: Slot) -> _Running:
        job = self.sweep.prepare(number, overrides)
        self.sweep.tell_start(job)
        console = job.folder / "console.log" if self.sweep.settings.parallel > 1 else None
        return _Running(job, JobProcess(job.folder, self.sweep.folder, job.words, slot, console), slot)

    def _stop(self, running: Sequence[_Running]) -> None:
        """Ends what still runs, in order; told once more to stop, at once."""
        for entry in running:
            entry.process.stop()
        if running:
            logger.info("stopping what runs (%d); Ctrl-C again ends it at once", len(running))
        for entry in running:
            try:
                record = entry.process.finish()
            except SystemExit:
                for other in running:
                    other.process.stop()
                record = entry.process.finish()
            self.sweep.tell_end(entry.job, record)
