"""The sweep of all combinations: jobs that are known, checked and numbered before the first of them starts."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from spt.config.dry_run import planned_jobs
from spt.config.sweep import own_words, read_settings
from spt.sweep.plan import Folders, PlannedJob, extend_plan
from spt.sweep.record import is_completed
from spt.sweep.report import end, plain_refusal, refuse_used_folder

logger = logging.getLogger(__name__)


class GridSweeper(Sweeper):
    """Hydra's sweeper that is chosen by hydra/sweeper=grid.

    In a folder that an earlier sweep has left, jobs that are complete are not run again; the others go on.

    Args:
        params: further keys with their values, as on the command line.
    """

    def __init__(self, params: dict[str, str] | None) -> None:
        self.params = params  # read with the command line, by `planned_jobs`

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra with the config of the sweep as a whole."""
        self.whole = config
        self.launcher: Launcher = Plugins.instance().instantiate_launcher(hydra_context, task_function, config)

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        """Runs what is left to run, and shows the table.

        Args:
            arguments: what was typed, Hydra's own words left out.
        """
        folder = Path(str(self.whole.hydra.sweep.dir)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        with plain_refusal():
            refuse_used_folder(folder)
        OmegaConf.save(self.whole, folder / "multirun.yaml")
        left = self._plan(folder)
        try:
            return list(self.launcher.launch(left, initial_job_idx=0)) if left else []
        finally:
            end(folder)

    def _plan(self, folder: Path) -> list[list[str]]:
        """Writes down all jobs, and gives the words of those that are left to run."""
        names, jobs, left = Folders(folder), [], []
        for job in planned_jobs(tuple(sys.argv[1:])):
            own = own_words(job.words)
            if job.refusal is not None:
                jobs.append(PlannedJob(own, None, job.refusal))
                continue
            name = job.subdir or names.find(own)
            jobs.append(PlannedJob(own, name))
            if not is_completed(folder / name, own):
                left.append([*job.words] if job.subdir else [*job.words, f"hydra.sweep.subdir={name}"])
        metrics = read_settings(self.whole).metrics
        extend_plan(folder, jobs, metrics=metrics)
        done = len(jobs) - len(left) - sum(job.refusal is not None for job in jobs)
        finished = f", {done} of them complete already" if done else ""
        logger.info("sweep of %d jobs in %s%s", len(jobs), folder, finished)
        return left
