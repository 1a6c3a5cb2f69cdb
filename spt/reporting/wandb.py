"""Weights & Biases, without a prompt and with one run a run folder."""

from __future__ import annotations

import logging
import os
import secrets
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import WandbLogger
from torch import Tensor

from spt.config.errors import ConfigError
from spt.reporting.api_key import has_api_key
from spt.reporting.atomic import write_text
from spt.reporting.picture import Picture

logger = logging.getLogger(__name__)

STEP = "trainer/global_step"
"""The x axis of every panel: optimizer steps that made the weights a row speaks of."""

_ID_FILE = "wandb_id.txt"
_NAME = "wandb"  # of the id in a checkpoint
_MODES = ("auto", "online", "offline", "disabled")
_OLD_NAMES = {"dryrun": "offline", "run": "online"}  # that the variable WANDB_MODE may have
_LONGEST_TAG = 64  # characters; the service refuses longer ones
_SECONDS_TO_ANSWER = 60.0  # that the service has, before a run in mode auto goes on without it


def wandb_logger(
    *,
    folder: str,
    project: str,
    entity: str | None,
    name: str | None,
    group: str | None,
    job_type: str | None,
    options: list[str],
    tags: list[str],
    id: str | None,
    mode: str,
) -> WandbRun:
    """A logger for Weights & Biases, with its run id kept in the run folder: a resumed run goes on.

    Args:
        folder: the run folder.
        project: where runs are collected.
        entity: user or team; None leaves it to the account.
        name: shown for the run; None lets the service make one up.
        group: runs that belong together.
        job_type: kind of run.
        options: chosen in the config groups; they become tags.
        tags: further words to filter runs by.
        id: of the run; None for that of WANDB_RUN_ID, else of the folder, else a new one.
        mode: auto | online | offline | disabled. auto: as WANDB_MODE says, else online where an API key is found and
            the service answers, else offline; never a prompt.

    Raises:
        ConfigError: an unknown mode, or online without a key.
    """
    chosen = _chosen_mode(mode)
    if id is not None:
        rank_zero_only(write_text)(Path(folder) / _ID_FILE, f"{id}\n")
    return WandbRun(
        folder=folder,
        may_go_offline=mode == "auto",
        mode=chosen,
        project=project,
        entity=entity,
        name=name,
        group=group,
        job_type=job_type,
        tags=list(dict.fromkeys(word[:_LONGEST_TAG] for word in (*options, *tags))),
        run_id=_run_id(Path(folder)),
    )


class WandbRun(WandbLogger):
    """Lightning's logger, which counts steps as the run does, so that those of a resumed run follow on.

    Lightning leaves wandb's own counter at the number of calls, which starts again with every process: then an
    uploaded run is overwritten by its resumption.

    Args:
        folder: the run folder.
        may_go_offline: whether a service that cannot be reached, or refuses the key, makes the run an offline one.
        mode: online | offline | disabled.
        project, entity, name, group, job_type, tags: see `wandb_logger`.
        run_id: of the run.
    """

    def __init__(
        self,
        *,
        folder: str,
        may_go_offline: bool,
        mode: str,
        project: str,
        entity: str | None,
        name: str | None,
        group: str | None,
        job_type: str | None,
        tags: Sequence[str],
        run_id: str,
    ) -> None:
        import wandb

        super().__init__(
            project=project,
            entity=entity,
            name=name,
            save_dir=folder,
            id=run_id,
            group=group,
            job_type=job_type,
            tags=list(tags),
            # given to wandb.init: Lightning's own offline=True would set an environment variable for the whole process
            mode=mode,
            # standard output holds the progress bar, and train.log all that is worth keeping
            settings=wandb.Settings(console="off", silent=mode != "online", init_timeout=_SECONDS_TO_ANSWER),
        )
        del self._wandb_init["anonymous"]  # wandb warns of it, whatever it is
        self.folder = folder
        self.may_go_offline = may_go_offline

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, object] | Namespace) -> None:
        """Starts the run, if need be, and gives it its config.

        Raises:
            ConfigError: the service refuses the key or does not answer, and mode=online asks for it.
        """
        self._start()
        super().log_hyperparams(params)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float | Tensor | object], step: int | None = None) -> None:
        """Adds values, or media, to the row of `step`."""
        assert step is not None, "Lightning names the step of every metric"
        self.experiment.log({**metrics, STEP: step}, step=step)

    @rank_zero_only
    def log_picture(self, picture: Picture, step: int) -> None:
        """Shows a picture under pictures/<name>, with a slider over its steps."""
        import wandb

        self.log_metrics({f"pictures/{picture.name}": wandb.Image(picture.pixels)}, step=step)

    def _start(self) -> None:
        import wandb

        try:
            _ = self.experiment
        except wandb.Error as error:
            reason = " ".join(str(error).split())[:200]
            if not self.may_go_offline:
                raise ConfigError(
                    f"logger.wandb.mode=online, and the service does not take the run: {reason}. Run `wandb login`, or "
                    "use logger.wandb.mode=offline."
                ) from error
            logger.warning("wandb does not take the run: %s", reason)
            wandb.teardown()  # its own process still holds the run's id
            self._wandb_init |= {"mode": "offline", "settings": wandb.Settings(console="off", silent=True)}
            _ = self.experiment
        if self._wandb_init["mode"] == "offline":
            there = shlex.quote(f"{self.folder}/wandb")
            logger.info("wandb is offline; to upload this run later: wandb sync %s/offline-run-*", there)


def run_ids(folder: Path) -> dict[str, str]:
    """{"wandb": id} of a run folder that has one, for checkpoints."""
    path = folder / _ID_FILE
    return {_NAME: path.read_text(encoding="utf-8").strip()} if path.is_file() else {}


@rank_zero_only
def adopt_ids(folder: Path, ids: Mapping[str, str]) -> None:
    """Makes a folder without an id go on with that of a checkpoint. Call it before loggers are built."""
    if _NAME in ids and not (folder / _ID_FILE).is_file():
        write_text(folder / _ID_FILE, f"{ids[_NAME]}\n")


def _chosen_mode(mode: str) -> str:
    """online | offline | disabled.

    Raises:
        ConfigError: an unknown mode, or online without a key.
    """
    if mode not in _MODES:
        raise ConfigError(f"logger.wandb.mode={mode} is not a mode; use logger.wandb.mode={'|'.join(_MODES)}.")
    given = os.environ.get("WANDB_MODE")
    meant = given if given is None else _OLD_NAMES.get(given, given)
    if meant not in (None, *_MODES[1:]):  # wandb itself fails on an empty one, whatever the mode is
        raise ConfigError(f"WANDB_MODE={given} is not a mode; use WANDB_MODE={'|'.join(_MODES[1:])}, or unset it.")
    source = f"logger.wandb.mode={mode}"
    if mode == "auto":
        if meant is None:
            return "online" if has_api_key() else "offline"
        mode, source = meant, f"WANDB_MODE={given}"
    if mode == "online" and not has_api_key():
        raise ConfigError(
            f"{source} needs an API key, and neither WANDB_API_KEY nor a netrc file has one; run `wandb login`, or use "
            "logger.wandb.mode=offline."
        )
    return mode


def _run_id(folder: Path) -> str:
    """The id of the folder's run: a sweep agent's, or the one of an earlier start, or a new one."""
    if os.environ.get("WANDB_RUN_ID"):
        return os.environ["WANDB_RUN_ID"]
    path = folder / _ID_FILE
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    run_id = secrets.token_hex(4)  # not from a seeded generator: two runs of one seed are two runs
    rank_zero_only(write_text)(path, f"{run_id}\n")  # the other processes have no run
    return run_id
