"""The search by Optuna: trials are jobs like others, kept in the sweep's folder, and survive a restart."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from spt.config.dry_run import refusal_of
from spt.config.errors import ConfigError
from spt.config.overrides import parse
from spt.config.sweep import own_words, read_settings
from spt.sweep.job import read_objective
from spt.sweep.plan import Folders, PlannedJob, extend_plan
from spt.sweep.record import is_completed, read_record, read_run_summary
from spt.sweep.report import end, plain_refusal, refuse_used_folder
from spt.sweep.space import Space, read_space
from spt.sweep.table import shortened

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage

logger = logging.getLogger(__name__)
_WORDS = "words"
"""Attribute of a trial: the overrides of its job."""


class OptunaSweeper(Sweeper):
    """Hydra's sweeper that is chosen by hydra/sweeper=optuna.

    A trial whose job fails is marked as failed, and the search goes on. In a folder that an earlier search has left,
    its trials count, and those that were under way are taken up again.

    Args:
        params: ranges by key, in the words of Hydra's command line.
        direction: maximize | minimize.
        num_trials: in all.
        storage: None for study.log in the sweep's folder, or an address.
        study_name: within the storage; None for the name of the sweep's folder.
        seed: of the sampler.
        sampler: proposes the values of a trial.
    """

    def __init__(
        self,
        params: dict[str, str] | None,
        direction: Literal["maximize", "minimize"],
        num_trials: int,
        storage: str | None,
        study_name: str | None,
        seed: int,
        sampler: Callable[..., BaseSampler],
    ) -> None:
        self.params = params or {}
        self.direction, self.num_trials = direction, num_trials
        self.storage, self.study_name = storage, study_name
        self.seed, self.sampler = seed, sampler

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra with the config of the sweep as a whole."""
        self.whole = config
        self.settings = read_settings(config)
        self.folder = Path(str(config.hydra.sweep.dir)).absolute()
        self.launcher: Launcher = Plugins.instance().instantiate_launcher(hydra_context, task_function, config)

    def sweep(self, arguments: list[str]) -> None:
        """Runs the trials that are left to run, and shows the table.

        Args:
            arguments: what was typed, Hydra's own words left out; a range replaces that of `params`, as does one value.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with plain_refusal():
            refuse_used_folder(self.folder)
            self._check()
            OmegaConf.save(self.whole, self.folder / "multirun.yaml")
            space = read_space(parse([*(f"{key}={value}" for key, value in self.params.items()), *arguments]).overrides)
            study = self._study()
            try:
                self._search(study, space)
            finally:
                end(self.folder)
                _tell_best(study)

    def _check(self) -> None:
        """Raises:
        ConfigError: settings that cannot be.
        """
        if self.direction not in ("maximize", "minimize"):
            raise ConfigError(
                f"hydra.sweeper.direction={self.direction} is none.\n    try: hydra.sweeper.direction=maximize|minimize"
            )
        if any(str(word).startswith("hydra.sweep.subdir=") for word in self.whole.hydra.overrides.hydra):
            raise ConfigError(
                "hydra.sweep.subdir names folders, and those of a search are numbered.\n    try: leave it out"
            )
        if self.settings.objective is None:
            raise ConfigError("A search needs an objective.\n    try: sweep.objective=val/knn_top1")

    def _study(self) -> Study:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            storage=self._storage(),
            study_name=self.study_name or self.folder.name,
            direction=self.direction,
            load_if_exists=True,
        )
        # a sampler that starts with the same seed once more would propose its first trials once more
        study.sampler = self.sampler(seed=self.seed + len(study.get_trials(deepcopy=False)))
        return study

    def _storage(self) -> BaseStorage | str:
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        return self.storage or JournalStorage(JournalFileBackend(str(self.folder / "study.log")))

    def _search(self, study: Study, space: Space) -> None:
        from optuna.trial import TrialState

        under_way = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        trials = {trial.number: list(trial.user_attrs[_WORDS]) for trial in under_way if _WORDS in trial.user_attrs}
        finished = len(study.get_trials(deepcopy=False)) - len(under_way)
        logger.info("search in %s: %d of %d trials are there already", self.folder, finished, self.num_trials)
        while trials or finished < self.num_trials:
            while len(trials) < min(self.settings.parallel, self.num_trials - finished):
                trial = study.ask(space.distributions)
                trials[trial.number] = space.words(trial.params)
                trial.set_user_attr(_WORDS, trials[trial.number])
            batch = {number: trials.pop(number) for number in list(trials)[: self.settings.parallel]}
            finished += len(batch)
            self._run(study, batch)

    def _run(self, study: Study, batch: dict[int, list[str]]) -> None:
        """Runs some trials at a time, and tells the study what came of them."""
        names = Folders(self.folder)
        jobs: dict[int, PlannedJob] = {}
        for number, words in batch.items():
            refusal = refusal_of(tuple(sys.argv[1:]), tuple(words))
            own = own_words(words)
            jobs[number] = PlannedJob(own, names.find(own) if refusal is None else None, refusal)
        extend_plan(self.folder, jobs.values(), metrics=self.settings.metrics, keep=True)
        left = [
            [*batch[number], f"hydra.sweep.subdir={job.folder}"]
            for number, job in jobs.items()
            if job.folder is not None and not is_completed(self.folder / job.folder, job.overrides)
        ]
        if left:
            self.launcher.launch(left, initial_job_idx=min(batch))
        for number, job in jobs.items():
            self._tell(study, number, job)

    def _tell(self, study: Study, number: int, job: PlannedJob) -> None:
        from optuna.trial import TrialState

        folder = None if job.folder is None else self.folder / job.folder
        record = None if folder is None else read_record(folder)
        if record is not None and record.status == "preempted":
            return  # under way still, for the next command on this folder
        if folder is None or record is None or record.status != "completed":
            study.tell(number, state=TrialState.FAIL)
            return
        objective = read_objective(folder, self.settings.objective)
        self._refuse_unmeasured(folder)
        if objective is None:  # measured, and not finite
            study.tell(number, state=TrialState.FAIL)
        else:
            study.tell(number, objective)

    def _refuse_unmeasured(self, folder: Path) -> None:
        """Raises:
        ConfigError: the run has not measured the objective, and no other will.
        """
        metrics = read_run_summary(folder).get("metrics")
        names = sorted(metrics) if isinstance(metrics, dict) else []
        if self.settings.objective not in names:
            raise ConfigError(
                f"sweep.objective={self.settings.objective}: the run in {folder} has not measured it, but "
                f"{', '.join(names) or 'nothing'}.\n    try: sweep.objective={(names or ['NAME'])[0]}"
            )


def _tell_best(study: Study) -> None:
    from optuna.trial import TrialState

    if study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        best = study.best_trial
        words = (f"{key}={shortened(str(value))}" for key, value in best.params.items())
        logger.info("best of the search: %.4g with %s", best.value, " ".join(words))
