"""What every launcher of this project does with a job before it starts and after it has ended."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hydra.core.utils import JobReturn, JobStatus, configure_log, run_job, setup_globals
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

from spt.config.errors import JobError
from spt.config.sweep import Settings, own_words, read_settings
from spt.sweep.job import hand_over, read_objective
from spt.sweep.record import JobRecord
from spt.sweep.table import duration

logger = logging.getLogger(__name__)


class Prepared(NamedTuple):
    """A job that can start.

    Attributes:
        number: within its sweep, from 0.
        folder: of the job, with its config in it.
        words: its overrides.
        config: as Hydra has composed it.
        returned: to be filled in and given to the sweeper.
    """

    number: int
    folder: Path
    words: list[str]
    config: DictConfig
    returned: JobReturn


class Sweep:
    """A sweep as its launcher sees it.

    Args:
        context, task, config: as Hydra gives them to a launcher.
    """

    def __init__(self, context: HydraContext, task: TaskFunction, config: DictConfig) -> None:
        self.context, self.task, self.config = context, task, config
        self.settings: Settings = read_settings(config)
        self.folder = Path(str(config.hydra.sweep.dir)).absolute()
        self.count = 0
        self.common: set[str] = set()

    def begin(self, job_overrides: Sequence[Sequence[str]], first: int) -> list[tuple[int, Sequence[str]]]:
        """Numbers the jobs of a launch.

        Args:
            job_overrides: of every job.
            first: number of the first.
        """
        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        self.count = OmegaConf.select(self.config, "hydra.sweeper.num_trials") or first + len(job_overrides)
        typed = {str(word) for word in self.config.hydra.overrides.task}
        self.common = set.intersection(*map(set, job_overrides)) if len(job_overrides) > 1 else typed
        return list(enumerate(job_overrides, first))

    def prepare(self, number: int, overrides: Sequence[str]) -> Prepared:
        """Composes a job and leaves its config in its folder, which Hydra makes and describes in .hydra/."""
        config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        folder = Path()

        def leave(cfg: DictConfig) -> None:
            nonlocal folder
            folder = hand_over(cfg)

        # its callbacks hear of the job when it really starts and ends
        silent = HydraContext(config_loader=self.context.config_loader, callbacks=type(self.context.callbacks)())
        returned = run_job(
            leave, config, "hydra.sweep.dir", "hydra.sweep.subdir", hydra_context=silent, configure_logging=False
        )
        _ = returned.return_value  # raises what went wrong in leave
        return Prepared(number, folder, own_words(returned.overrides or []), config, returned)

    def tell_start(self, job: Prepared) -> None:
        """Says, on the screen and to Hydra's callbacks, that a job starts."""
        self.context.callbacks.on_job_start(config=job.config, task_function=self.task)
        own = " ".join(word for word in job.words if word not in self.common)
        logger.info("[%d/%d] %s -> %s", job.number + 1, self.count, own, job.folder)

    def tell_end(self, job: Prepared, record: JobRecord) -> JobReturn:
        """Says how a job has ended, and gives what its sweeper is told."""
        is_completed = record.status == "completed"
        objective = read_objective(job.folder, self.settings.objective)
        job.returned.status = JobStatus.COMPLETED if is_completed else JobStatus.FAILED
        job.returned.return_value = objective if is_completed else JobError(f"{record.status}: {record.reason}")
        value = "" if objective is None else f", {self.settings.objective} {objective:.4g}"
        ending = f" in {duration(record.seconds)}{value}" if is_completed else f": {record.reason}"
        logger.info("[%d/%d] %s%s", job.number + 1, self.count, record.status, ending)
        self.context.callbacks.on_job_end(config=job.config, job_return=job.returned)
        return job.returned
