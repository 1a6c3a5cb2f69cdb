"""The command line of an evaluation: from what was typed to words for Hydra that are known to work."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spt.config.errors import ConfigError
from spt.config.evaluated import TIMM, Source, read_source
from spt.config.machine import joined_group
from spt.config.tree import ConfigTree, Plain, dotted_keys, project_tree

if TYPE_CHECKING:
    from omegaconf import DictConfig

FOLDER = "evaluation"
"""In conf: the root of every evaluation's config. In a run folder: where results go."""

_PLAIN_WORD = re.compile(r"[A-Za-z_/][\w./-]*")
_NOT_WORDS = frozenset({"null", "true", "false", "nan", "inf", "yes", "no", "on", "off"})


def begin(script: str, help_text: str) -> None:
    """What an evaluation's script does before Hydra: help (status 0), and a refusal of what cannot work (status 2).

    Leaves in sys.argv what Hydra is to read: the data of the run, what was typed, and where results go.

    Args:
        script: the name of its config, in conf/evaluation.
        help_text: of the script.
    """
    # Hydra shortens tracebacks, and loses the cause of an error, unless it is told not to
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    words = sys.argv[1:]
    if not words or {"-h", "--help"} & set(words):
        sys.stdout.write(f"{help_text.strip()}\n")
        raise SystemExit(0 if words else 2)
    from hydra._internal.utils import get_args_parser  # Hydra, for which help does not wait

    args = get_args_parser().parse_args(words)
    try:
        if args.multirun:
            raise ConfigError(
                "-m would write several results under one name: an evaluation is one command.\n"
                f"    try: for run in runs/*/*; do python scripts/{script}.py source=$run; done"
            )
        group = joined_group()
        if group is not None and group.world_size > 1:
            raise ConfigError(
                f"{group.launcher} has started {group.world_size} processes, and an evaluation starts its own.\n"
                f"    try: python scripts/{script}.py ... without it; finetune.py takes trainer.devices=N strategy=ddp"
            )
        given = expanded(script, args.overrides)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None
    flags = [word for word in words if word not in args.overrides]
    sys.argv[1:] = [*flags, *given, "--config-dir", str(project_tree().folders[0])]


def tree_of(script: str) -> ConfigTree:
    """The YAML files of an evaluation: its own, and the groups that it shares with training."""
    conf = project_tree().folders[0]
    return ConfigTree((conf / FOLDER, conf), script)


def compose_evaluation(script: str, *overrides: str) -> DictConfig:
    """The config of an evaluation for a notebook, a script or a test, as its command line would have it.

    Args:
        script: knn | linear_probe | finetune | extract_features.
        overrides: as on the command line, for example "source=runs/...", "data=cifar10".

    Raises:
        ConfigError: everything that is wrong.
    """
    from omegaconf import OmegaConf, open_dict, read_write

    from spt.config.composer import open_composer

    words = expanded(script, overrides)
    with open_composer(tree_of(script)) as composer:
        cfg = composer.compose(composer.read(words, multirun=False), job=0)
    with read_write(cfg), open_dict(cfg):
        del cfg["hydra"]  # read-only, and no part of what an evaluation sees
    OmegaConf.resolve(cfg)
    return cfg


def expanded(script: str, words: Sequence[str]) -> list[str]:
    """The words of a command line with the data of the source's run before them, checked by composing them.

    Whatever was typed wins. `data=OPTION` leaves the run's data out altogether.

    Raises:
        ConfigError: everything that is wrong.
    """
    from spt.config.composer import open_composer

    source = read_source(_value("source", words))
    folder = _value("folder", words)
    with open_composer(tree_of(script)) as composer:
        # without the run's data first: a misspelt key is to be told before anything about the run is
        composer.read(words, multirun=False)
        chosen = [*_data_words(script, source, words), *words]
        if folder is None:
            chosen.append(f"folder={typed(str(_folder(source)))}")
        composer.compose(composer.read(chosen, multirun=False), job=0)
    return chosen


def _value(key: str, words: Sequence[str]) -> str | None:
    found = next((word.partition("=")[2] for word in words if word.partition("=")[0] == key), None)
    return None if found in (None, "", "null") else found.strip("'\"")


def _folder(source: Source) -> Path:
    if source.folder is not None:
        return source.folder
    return Path("runs") / source.text.replace(":", "-").replace("/", "-")


def _data_words(script: str, source: Source, words: Sequence[str]) -> list[str]:
    """The run's data as words: its option, and the keys whose values were others than the option's."""
    keys = {word.partition("=")[0].lstrip("+~") for word in words}
    if "data" in keys:
        return []
    options = project_tree().options("data")
    if source.data not in options:
        what = "was trained on data that is not known" if source.data is None else f"was trained on {source.data}"
        what = "has no data of its own" if source.text.startswith(TIMM) else what
        raise ConfigError(
            f"source={source.text} {what}; which images shall it be evaluated on?\n    try: data={'|'.join(options)}"
        )
    stored = source.config().get("data")
    if not isinstance(stored, dict):
        return [f"data={source.data}"]
    from spt.config.composer import open_composer

    with open_composer(tree_of(script)) as composer:
        option = composer.node([f"data={source.data}"], "data")
    changed = [word for key, word in _changes(option, stored, "data") if key not in keys]
    return [f"data={source.data}", *changed]


def _changes(option: Plain, stored: Plain, key: str) -> Iterator[tuple[str, str]]:
    """Keys, each with the word that sets it, of leaves that are stored with another value than the option's."""
    before = dict(_leaves(option, key))
    for name, value in _leaves(stored, key):
        if name in before and before[name] == value:
            continue
        if name.endswith("._target_"):  # code is named by this project's own files alone
            raise ConfigError(
                f"The run read its images by {value}, and {key}'s file by {before.get(name)}.\n"
                f"    try: data=<an option whose file names {value}>"
            )
        yield name, f"{'' if name in before else '+'}{name}={typed(value)}"


def _leaves(node: Plain, key: str) -> Iterator[tuple[str, Plain]]:
    for name in dotted_keys(node):
        value: Plain = node
        for part in name.split("."):
            assert isinstance(value, dict)
            value = value[part]
        if not isinstance(value, dict):
            yield f"{key}.{name}", value


def typed(value: Plain) -> str:
    """A value as Hydra's command line takes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(typed(entry) for entry in value)}]"
    if isinstance(value, str) and (not _PLAIN_WORD.fullmatch(value) or value.lower() in _NOT_WORDS):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)
