"""What holds for a sweep as a whole: its settings, and which share of the machine each of its jobs may have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from shutil import which
from typing import NamedTuple

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from spt.config.errors import ConfigError
from spt.config.facts import Facts
from spt.config.machine import count_gpus, is_installed, resolve_accelerator, resolve_devices

PROCESSES = "hydra_plugins.spt_sweep.ProcessLauncher"
# launchers whose jobs run on other machines than the one that checks them
_ELSEWHERE = (
    "hydra_plugins.spt_sweep.SlurmLauncher", "hydra_plugins.hydra_submitit_launcher.submitit_launcher.SlurmLauncher"
)  # fmt: skip


class SweepJob(NamedTuple):
    """One job of a sweep before it starts.

    Attributes:
        words: its overrides, Hydra's own left out.
        refusal: why it cannot work, or None.
        subdir: the folder below the sweep's that hydra.sweep.subdir was given for it; None leaves that to the sweep.
    """

    words: tuple[str, ...]
    refusal: str | None
    subdir: str | None


class Settings(NamedTuple):
    """The node `sweep` of the config.

    Attributes:
        parallel: jobs at a time.
        on_refused: stop | skip.
        metrics: columns of the table, the objective included.
        objective: the metric that a search looks at.
    """

    parallel: int
    on_refused: str
    metrics: list[str]
    objective: str | None


def read_settings(cfg: DictConfig) -> Settings:
    """The settings in a config; those of a config without the node `sweep` run one job at a time.

    Raises:
        ConfigError: a value that cannot be.
    """
    node = OmegaConf.select(cfg, "sweep")
    if node is None:
        return Settings(1, "stop", [], None)
    if not isinstance(node.parallel, int) or node.parallel < 1:
        raise ConfigError(
            f"sweep.parallel={node.parallel} is how many jobs run at a time: at least one.\n    try: sweep.parallel=1"
        )
    if node.on_refused not in ("stop", "skip"):
        raise ConfigError(
            f"sweep.on_refused={node.on_refused}: jobs that cannot work stop the sweep before it starts, or are "
            "skipped.\n    try: sweep.on_refused=stop or sweep.on_refused=skip"
        )
    names = [*node.metrics, *([] if node.objective is None else [node.objective])]
    return Settings(node.parallel, node.on_refused, list(dict.fromkeys(map(str, names))), node.objective)


def own_words(words: Iterable[str]) -> list[str]:
    """The overrides that tell a job from others: not those of Hydra, nor those of the sweep that it is one of."""
    return [word for word in words if not word.lstrip("+~").startswith(("hydra.", "hydra/", "sweep."))]


def refuse_what_is_missing(sweep: DictConfig) -> None:
    """Raises:
    ConfigError: a sweeper or launcher of this project that needs what is not there.
    """
    needs = {
        "hydra_plugins.spt_sweep.OptunaSweeper": ("hydra/sweeper=optuna", "optuna"),
        "hydra_plugins.spt_sweep.SlurmLauncher": ("hydra/launcher=slurm", "submitit"),
    }
    for node in (sweep.hydra.sweeper, sweep.hydra.launcher):
        word, package = needs.get(str(node._target_), ("", ""))
        if package and not is_installed(package):
            raise ConfigError(f"{word} needs {package}, which is not installed.\n    try: pip install {package}")
        if package == "submitit" and node.cluster == "slurm" and which("srun") is None:
            raise ConfigError(
                f"{word} puts jobs into SLURM's queue, and there is no srun on this machine.\n"
                "    try: a login node of the cluster, or hydra.launcher.cluster=local"
            )


def refuse_swept_settings(overrides: Iterable[Override]) -> None:
    """Raises:
    ConfigError: several values for a setting of the sweep itself, or of its launcher or sweeper.
    """
    for override in overrides:
        of_sweep = override.key_or_group.startswith(("sweep.", "hydra.", "hydra/"))
        if of_sweep and override.is_sweep_override():
            raise ConfigError(
                f"{override.input_line} names several values, and a sweep as a whole has one.\n"
                f"    try: {override.key_or_group}=VALUE"
            )


def at_its_machine(facts: Facts, cfg: DictConfig) -> Facts:
    """Facts of a job where it will run: for a queue of other machines, without those of this one.

    The job checks itself once more when it starts there.
    """
    launcher = OmegaConf.select(cfg, "hydra.launcher._target_")
    if launcher not in _ELSEWHERE:
        return facts
    return replace(
        facts,
        accelerator=None if cfg.trainer.accelerator == "auto" else facts.accelerator,
        gpus=None,
        gpu_has_bfloat16=None,
        slurm_tasks=None,  # a sweep may be started from a SLURM job of its own
        in_slurm_step=None,
    )


def refused_by_share(cfg: DictConfig, sweep: DictConfig) -> str | None:
    """Why a job cannot have the devices that it asks for, in a queue or while others run beside it.

    Args:
        cfg: of the job.
        sweep: of the sweep as a whole, hydra node included.
    """
    parallel = read_settings(sweep).parallel
    given, accelerator = OmegaConf.select(cfg, "trainer.devices"), OmegaConf.select(cfg, "trainer.accelerator")
    if sweep.hydra.launcher._target_ in _ELSEWHERE and given in ("auto", -1, "-1"):
        return f"trainer.devices={given}: the queue must be told how many a job needs.\n    try: trainer.devices=8"
    if parallel == 1 or sweep.hydra.launcher._target_ != PROCESSES:
        return None
    if not isinstance(given, (int, str)):
        return (
            f"trainer.devices={given} names devices, and sweep.parallel={parallel} gives every job devices of its own."
            f"\n    try: trainer.devices={len(given)}"
        )
    if resolve_accelerator(accelerator) != "gpu":
        return None  # processor cores can be shared
    gpus = count_gpus()
    wanted = 1 if given in ("auto", -1, "-1") else resolve_devices(given, accelerator) or 1
    if wanted <= gpus // parallel:
        return None
    return (
        f"trainer.devices={given} with sweep.parallel={parallel}: each job has {gpus // parallel} of the {gpus} GPUs "
        f"here.\n    try: sweep.parallel={max(1, gpus // wanted)}"
    )
