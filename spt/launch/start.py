"""Where a run goes: into this process, into processes started here, or along with those a launcher has started."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import spt
from spt.config.command_line import check_command_line
from spt.config.machine import Group, joined_group, resolve_devices
from spt.launch.task import PRETRAINING, perform

if TYPE_CHECKING:
    from omegaconf import DictConfig


def begin() -> None:
    """What train.py does before Hydra: checks what was typed. On ranks other than 0 of torchrun or srun, all of it.

    Those take the config of rank 0, its run folder included, and never meet Hydra: a folder that is named after the
    time would be another one on every rank.
    """
    group = joined_group()
    if group is None or group.rank == 0:
        check_command_line()
        from spt.sweep.registration import register  # imports Hydra, for which --help does not wait

        register()
        return
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # rank 0 says it
        a_run_follows = check_command_line()
    if a_run_follows:
        from spt.launch.joined import follow  # imports torch, for which a refusal does not wait

        follow(group)
    raise SystemExit(0)


def train(cfg: DictConfig) -> float | None:
    """Runs the experiment that `cfg` describes, on as many processes as `trainer.devices` asks for.

    As a job of a sweep it runs in a fresh process, whatever launcher Hydra has given it to: process groups, ports,
    loggers and memory of one job are nothing that the next could meet.

    Args:
        cfg: composed by train.py or `spt.compose`.

    Returns:
        val/knn_top1 at the end, for sweeps; None when no probe measured it.

    Raises:
        ConfigError: the experiment cannot work; says what to type instead.
        RankError: a process failed; the text is its traceback.
        JobError: a job of a sweep did not complete.
    """
    from spt.config.handover import in_sweep, run_folder  # imports Hydra, for which --help does not wait
    from spt.launch.folder import taken

    if in_sweep():
        from spt.sweep.job import run_job

        return run_job(cfg)
    group = joined_group()
    if group is not None and group.rank > 0:
        return spt.train_here(cfg)
    with taken(Path(run_folder())):
        return _train(cfg, group)


def spread(cfg: DictConfig, task: str) -> float | None:
    """Performs a task in this process or, where `trainer.devices` asks for several, in as many new ones.

    Raises:
        ConfigError: it cannot work; says what to type instead.
        RankError: a process failed; the text is its traceback.
    """
    devices = cfg.trainer.devices
    plain = devices if isinstance(devices, (int, str)) else list(devices)
    num_ranks = resolve_devices(plain, cfg.trainer.accelerator) or 1
    if num_ranks == 1:
        return perform(task, cfg)
    from spt.launch.ranks import launch  # imports torch, which a run on one device imports anyway

    return launch(cfg, num_ranks=num_ranks, task=task)


def _train(cfg: DictConfig, group: Group | None) -> float | None:
    if group is None:
        return spread(cfg, PRETRAINING)
    from spt.launch.joined import publish

    store = publish(cfg, group)  # lives as long as the run: other ranks may still be reading
    value = spt.train_here(cfg)
    del store
    return value
