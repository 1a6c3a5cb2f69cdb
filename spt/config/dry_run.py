"""What a command line would run, composed and checked without running it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hydra._internal.utils import get_args_parser

from spt.config.composer import open_composer
from spt.config.errors import ConfigError
from spt.config.machine import joined_group
from spt.config.resolvers import register
from spt.config.sweep import (
    SweepJob,
    own_words,
    read_settings,
    refuse_swept_settings,
    refuse_what_is_missing,
    refused_by_share,
)
from spt.config.tree import ConfigTree, project_tree

if TYPE_CHECKING:
    from argparse import Namespace

    from omegaconf import DictConfig

    from spt.config.composer import Composer


class Answer(NamedTuple):
    """What follows a command line that can work.

    Attributes:
        a_run_follows: not when something is only shown.
        notice: what is to be told before; empty for nothing.
    """

    a_run_follows: bool
    notice: str = ""


def check_arguments(arguments: Sequence[str]) -> Answer:
    """Composes every run that the arguments ask for and checks it. Writes nothing.

    Flags that only show something (--cfg, --info) have their words checked; Hydra answers them.

    Raises:
        ConfigError: everything that is wrong, in one text.
    """
    register()
    args = get_args_parser().parse_args(list(arguments))
    if args.hydra_help or args.shell_completion or args.experimental_rerun is not None:
        return Answer(False)
    shown = [flag for flag, value in (("--cfg", args.cfg), ("--info", args.info)) if value is not None]
    if args.multirun and shown:
        raise ConfigError(
            f"-m runs many jobs, and {shown[0]} shows one config.\n"
            f"    try: {shown[0]} {args.cfg or args.info} without -m, and one value a key; every job of a sweep leaves "
            "its config_resolved.yaml"
        )
    if not shown and _is_multirun(args):
        _refuse_joined_sweep()
        return Answer(True, _notice(planned_jobs(tuple(arguments))))
    with open_composer(_tree(args.config_path, args.config_dir, args.config_name)) as composer:
        overrides = composer.read(args.overrides, multirun=_is_multirun(args))
        if shown:
            return Answer(False)
        composer.compose(overrides, job=0)
    return Answer(True)


@cache  # the check before Hydra starts, and the sweeper after it
def planned_jobs(arguments: tuple[str, ...]) -> tuple[SweepJob, ...]:
    """Every job of the sweep that the arguments ask for, in order, with the refusals of those that cannot work.

    Args:
        arguments: of a command with -m.

    Raises:
        ConfigError: words that cannot be read, or jobs that cannot work where `sweep.on_refused` is stop.
    """
    args = get_args_parser().parse_args(list(arguments))
    with open_composer(_tree(args.config_path, args.config_dir, args.config_name)) as composer:
        overrides = composer.read(args.overrides, multirun=True)
        refuse_swept_settings(overrides)
        sweep = composer.sweep(overrides)
        refuse_what_is_missing(sweep)
        runs = composer.jobs(overrides)
        jobs = tuple(_planned(composer, sweep, words, number) for number, words in enumerate(runs))
    refused = sum(job.refusal is not None for job in jobs)
    if refused == len(jobs) or (refused and read_settings(sweep).on_refused == "stop"):
        others = len(jobs) - refused
        advice = f"\ntry: sweep.on_refused=skip, to run the other {others}" if others else ""
        raise ConfigError(f"{refused} of {len(jobs)} runs cannot work, and none was started.\n{_listed(jobs)}{advice}")
    return jobs


def refusal_of(arguments: tuple[str, ...], words: tuple[str, ...]) -> str | None:
    """Why a job that a search has chosen cannot work, or None.

    Args:
        arguments: of the command with -m.
        words: overrides of the job.
    """
    args = get_args_parser().parse_args(list(arguments))
    with open_composer(_tree(args.config_path, args.config_dir, args.config_name)) as composer:
        sweep = composer.sweep(composer.read(args.overrides, multirun=True))
        hydra = [word for word in args.overrides if word.startswith(("hydra.", "hydra/"))]
        return _planned(composer, sweep, [*words, *hydra], 0).refusal


def _planned(composer: Composer, sweep: DictConfig, words: list[str], number: int) -> SweepJob:
    named = any(word.startswith("hydra.sweep.subdir=") for word in words)
    own = tuple(word for word in words if not word.startswith(("hydra.", "hydra/")))
    try:
        cfg = composer.compose(composer.read(words, multirun=False), job=number, in_sweep=True)
    except ConfigError as error:
        return SweepJob(own, str(error), None)
    return SweepJob(own, refused_by_share(cfg, sweep), str(cfg.hydra.sweep.subdir) if named else None)


def _notice(jobs: Sequence[SweepJob]) -> str:
    refused = sum(job.refusal is not None for job in jobs)
    return f"{refused} of {len(jobs)} runs cannot work, and are skipped.\n{_listed(jobs)}\n" if refused else ""


def _listed(jobs: Sequence[SweepJob]) -> str:
    """Refusals, each with the runs that it concerns."""
    concerned: dict[str, list[str]] = {}
    for job in jobs:
        if job.refusal is not None:
            concerned.setdefault(job.refusal, []).append(f"[{' '.join(own_words(job.words))}]")
    return "\n".join("\n".join([*runs, reason]) for reason, runs in concerned.items())


def _is_multirun(args: Namespace) -> bool:
    return bool(args.multirun) or "hydra.mode=MULTIRUN" in args.overrides


def _refuse_joined_sweep() -> None:
    """Raises:
    ConfigError: this process is one of several, each of which would start the same sweep.
    """
    group = joined_group()
    if group is not None and group.world_size > 1:
        raise ConfigError(
            f"-m starts the processes of every run itself, and {group.launcher} has started {group.world_size} already."
            "\n    try: python train.py -m ... trainer.devices=N, without a launcher"
        )


def _tree(config_path: str | None, config_dir: str | None, config_name: str | None) -> ConfigTree:
    """The folders that Hydra's flags name, or the project's own."""
    project = project_tree()
    main = project.folders[0] if config_path is None else project.folders[0].parent / config_path
    added = () if config_dir is None else (Path(config_dir).absolute(),)
    name = project.name if config_name is None else config_name.removesuffix(".yaml")
    for folder in (main, *added):
        if not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder; -cp and -cd take a folder with groups of YAML files.")
    if not (main / f"{name}.yaml").is_file() and not any((folder / f"{name}.yaml").is_file() for folder in added):
        raise ConfigError(f"{main / name}.yaml does not exist.\n    try: leave -cn {name} out")
    return ConfigTree((main, *added), name)
