"""What a command line would run, composed and checked without running it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra._internal.utils import get_args_parser

from spt.config.composer import Composer, open_composer
from spt.config.errors import ConfigError
from spt.config.machine import joined_group
from spt.config.resolvers import register
from spt.config.tree import ConfigTree, project_tree


def check_arguments(arguments: Sequence[str]) -> bool:
    """Composes every run that the arguments ask for and checks it. Writes nothing.

    Returns:
        Whether a run follows. Flags that only show something (--cfg, --info) have their words checked; Hydra answers
        them.

    Raises:
        ConfigError: everything that is wrong, in one text.
    """
    register()
    args = get_args_parser().parse_args(list(arguments))
    if args.hydra_help or args.shell_completion or args.experimental_rerun is not None:
        return False
    multirun = args.multirun or "hydra.mode=MULTIRUN" in args.overrides
    with open_composer(_tree(args.config_path, args.config_dir, args.config_name)) as composer:
        overrides = composer.read(args.overrides, multirun=multirun)
        if args.cfg is not None or args.info is not None:
            return False
        if multirun:
            _refuse_joined_sweep()
            _check_sweep(composer, composer.jobs(overrides))
        else:
            composer.compose(overrides, job=0)
    return True


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


def _check_sweep(composer: Composer, jobs: list[list[str]]) -> None:
    """Checks every run of a sweep before the first of them starts.

    Raises:
        ConfigError: the refusals, each with the runs that it concerns.
    """
    refused: dict[str, list[str]] = {}
    for number, words in enumerate(jobs):
        try:
            composer.compose(composer.read(words, multirun=False), job=number, in_sweep=True)
        except ConfigError as error:
            refused.setdefault(str(error), []).append(" ".join(words))
    if refused:
        count = sum(len(runs) for runs in refused.values())
        texts = ["\n".join([*(f"[{run}]" for run in runs), reason]) for reason, runs in refused.items()]
        raise ConfigError(f"{count} of {len(jobs)} runs cannot work, and none was started.\n" + "\n".join(texts))
