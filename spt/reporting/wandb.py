"""Weights & Biases, without a prompt and with one run a run folder."""

from __future__ import annotations

import logging
import netrc
import os
import secrets
import sys
from pathlib import Path
from urllib.parse import urlparse

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import WandbLogger

from spt.config.errors import ConfigError
from spt.reporting.atomic import write_text

logger = logging.getLogger(__name__)

_ID_FILE = "wandb_id.txt"
_MODES = ("auto", "online", "offline", "disabled")


def wandb_logger(
    *,
    folder: str,
    project: str,
    entity: str | None,
    name: str | None,
    group: str | None,
    job_type: str | None,
    tags: list[str],
    mode: str,
) -> WandbLogger:
    """Lightning's logger for Weights & Biases, with its run id kept in the run folder: a resumed run goes on.

    Args:
        folder: the run folder.
        project: where runs are collected.
        entity: user or team; None leaves it to the account.
        name: shown for the run; None lets the service make one up.
        group: runs that belong together.
        job_type: kind of run.
        tags: words to filter runs by.
        mode: auto | online | offline | disabled. auto: online where an API key is found, else offline, never a prompt.

    Raises:
        ConfigError: an unknown mode, or online without a key.
    """
    if mode not in _MODES:
        raise ConfigError(f"logger.wandb.mode={mode} is not a mode; use logger.wandb.mode={'|'.join(_MODES)}.")
    if mode == "online" and not has_api_key():
        raise ConfigError(
            "logger.wandb.mode=online needs an API key, and neither WANDB_API_KEY nor a netrc file has one; "
            "run `wandb login`, or use logger.wandb.mode=offline."
        )
    if mode == "auto":
        mode = os.environ.get("WANDB_MODE") or ("online" if has_api_key() else "offline")
    if mode == "offline":
        _tell_how_to_upload(folder)
    import wandb

    return WandbLogger(
        project=project,
        entity=entity,
        name=name,
        save_dir=folder,
        id=_run_id(Path(folder)),
        group=group,
        job_type=job_type,
        tags=tags,
        # given to wandb.init: Lightning's own offline=True would set an environment variable for the whole process
        mode=mode,
        # standard output holds the progress bar, and train.log all that is worth keeping
        settings=wandb.Settings(console="off", silent=mode != "online"),
    )


def run_ids(folder: Path) -> dict[str, str]:
    """{"wandb": id} of a run folder that has one, for checkpoints."""
    path = folder / _ID_FILE
    return {"wandb": path.read_text(encoding="utf-8").strip()} if path.is_file() else {}


def finish(exit_code: int) -> None:
    """Closes the run, if there is one: an offline file is incomplete until then, and Lightning never does it.

    Args:
        exit_code: 0 marks the run as finished, anything else as failed.
    """
    # a run that never imported it has nothing to close, and importing it takes a second
    wandb = sys.modules.get("wandb")
    if wandb is not None and wandb.run is not None:
        wandb.finish(exit_code=exit_code)


def has_api_key() -> bool:
    """Whether wandb.init would find an API key without asking."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    given = os.environ.get("NETRC")
    for path in [Path(given)] if given else [Path.home() / ".netrc", Path.home() / "_netrc"]:
        if path.is_file() and netrc.netrc(str(path)).authenticators(host) is not None:
            return True
    return False


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


@rank_zero_only
def _tell_how_to_upload(folder: str) -> None:
    logger.info("wandb is offline; to upload this run later: wandb sync %s/wandb/offline-run-*", folder)
