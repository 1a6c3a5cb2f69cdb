"""Jobs of a sweep on this machine, each in a process of its own and on devices of its own, several at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hydra.core.utils import JobReturn, JobStatus, configure_log, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from spt.config.errors import JobError
from spt.config.sweep import own_words, read_settings
from spt.sweep.job import JobProcess, hand_over, read_objective, stop_signals_raise
from spt.sweep.record import JobRecord
from spt.sweep.slots import Slot, divide
from spt.sweep.table import duration

logger = logging.getLogger(__name__)
_PACE = 0.1
"""Seconds between two looks at the processes."""


class _Running(NamedTuple):
    number: int
    job: JobProcess
    slot: Slot
    returned: JobReturn
    config: DictConfig


class ProcessLauncher(Launcher):
    """Hydra's launcher that is chosen by hydra/launcher=processes.

    A job that fails, exits or is killed gives a JobReturn that says so; the others go on. The sweep ends early only
    when this process is told to stop, and then its jobs end in order first.
    """

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra with the config of the sweep as a whole."""
        self.context, self.task, self.config = hydra_context, task_function, config
        self.settings = read_settings(config)
        self.folder = Path(str(config.hydra.sweep.dir)).absolute()

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Runs the jobs and gives what came of each, in order.

        Raises:
            SystemExit: this process was told to stop.
        """
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        waiting = list(enumerate(job_overrides, initial_job_idx))
        self.count = OmegaConf.select(self.config, "hydra.sweeper.num_trials") or initial_job_idx + len(waiting)
        typed = {str(word) for word in self.config.hydra.overrides.task}
        self.common = set.intersection(*(set(words) for words in job_overrides)) if len(waiting) > 1 else typed
        free = divide(self.settings.parallel)
        running: list[_Running] = []
        returns: dict[int, JobReturn] = {}
        with stop_signals_raise():
            try:
                while waiting or running:
                    while waiting and free:
                        running.append(self._start(*waiting.pop(0), free.pop(0)))
                    time.sleep(_PACE)
                    for ended in [entry for entry in running if entry.job.has_ended()]:
                        running.remove(ended)
                        free.append(ended.slot)
                        returns[ended.number] = self._finish(ended)
            finally:
                self._stop(running)
        return [returns[number] for number in sorted(returns)]

    def _start(self, number: int, overrides: Sequence[str], slot: Slot) -> _Running:
        config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        folder = Path()

        def prepare(cfg: DictConfig) -> None:
            nonlocal folder
            folder = hand_over(cfg)

        # Hydra makes the folder and writes .hydra/; its callbacks hear of the job when it really starts and ends
        silent = HydraContext(config_loader=self.context.config_loader, callbacks=type(self.context.callbacks)())
        returned = run_job(
            prepare, config, "hydra.sweep.dir", "hydra.sweep.subdir", hydra_context=silent, configure_logging=False
        )
        _ = returned.return_value  # raises what went wrong in prepare
        self.context.callbacks.on_job_start(config=config, task_function=self.task)
        words = own_words(returned.overrides or [])
        own = " ".join(word for word in words if word not in self.common)
        logger.info("[%d/%d] %s -> %s", number + 1, self.count, own, folder)
        console = folder / "console.log" if self.settings.parallel > 1 else None
        return _Running(number, JobProcess(folder, self.folder, words, slot, console), slot, returned, config)

    def _finish(self, entry: _Running) -> JobReturn:
        record, returned = entry.job.finish(), entry.returned
        returned.status = JobStatus.COMPLETED if record.status == "completed" else JobStatus.FAILED
        objective = read_objective(entry.job.folder, self.settings.objective)
        returned.return_value = (
            objective if record.status == "completed" else JobError(f"{record.status}: {record.reason}")
        )
        self._tell(entry.number, record, objective)
        self.context.callbacks.on_job_end(config=entry.config, job_return=returned)
        return returned

    def _tell(self, number: int, record: JobRecord, objective: float | None) -> None:
        value = "" if objective is None else f", {self.settings.objective} {objective:.4g}"
        ending = f" in {duration(record.seconds)}{value}" if record.status == "completed" else f": {record.reason}"
        logger.info("[%d/%d] %s%s", number + 1, self.count, record.status, ending)

    def _stop(self, running: Sequence[_Running]) -> None:
        """Ends what still runs, in order; told once more to stop, at once."""
        for entry in running:
            entry.job.stop()
        if running:
            logger.info("stopping what runs (%d); Ctrl-C again ends it at once", len(running))
        for entry in running:
            try:
                self._finish(entry)
            except SystemExit:
                for other in running:
                    other.job.stop()
                self._finish(entry)
