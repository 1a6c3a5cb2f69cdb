"""From what was typed to a config that is known to work: composed by Hydra, checked here, all that is wrong at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

from hydra import version
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import IntervalSweep, Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from spt.checkpoint.resume import is_run_folder
from spt.config.check import check
from spt.config.errors import ConfigError
from spt.config.facts import Facts, RunFolder
from spt.config.gathering import gather_facts
from spt.config.interpolations import interpolation_mistakes, known_values
from spt.config.overrides import Composed, assignment_mistakes, group_mistakes, meant_choices, parse, written_mistakes
from spt.config.resolvers import register
from spt.config.sweep import at_its_machine
from spt.config.targets import Node, key_mistakes, location_mistakes, target_nodes
from spt.config.tree import ConfigTree, Plain
from spt.config.trust import check_trust

VERSION_BASE = "1.3"  # of Hydra's behaviour; train.py says the same

# parameters that code gives when it builds a node, so that YAML need not, by the node's dotted key
SUPPLIED = {"method": frozenset({"backbone"})}
# and keys that code reads itself, whatever the node builds
INTERPRETED = {"backbone": frozenset({"init_from", "freeze_steps"})}


class Composer(NamedTuple):
    """Composes and checks configs of one tree of YAML files. Made by `open_composer`."""

    tree: ConfigTree
    loader: ConfigLoader
    known: dict[tuple[str, ...], dict[str, Plain]]

    def read(self, words: Sequence[str], *, multirun: bool) -> list[Override]:
        """The overrides that words on a command line stand for. The keys of a sweep are read run by run.

        Raises:
            ConfigError: words that cannot be read, options and keys that do not exist, several values without -m;
                all of them.
        """
        overrides, mistakes = parse(words)
        mistakes += group_mistakes(overrides, self.tree, multirun=multirun)
        if not multirun:
            values = self._known(meant_choices(overrides, self.tree))
            mistakes += assignment_mistakes(overrides, Composed(values, self.tree.groups()), self.tree)
        _raise(mistakes)
        return overrides

    def compose(self, overrides: Sequence[Override], *, job: int, in_sweep: bool = False) -> DictConfig:
        """The config of one run, the hydra node included, with every rule passed. Makes no folder.

        Args:
            overrides: as `read` gives them.
            job: the run's number within a sweep, 0 for a single run.
            in_sweep: it is one of a sweep's, and its folder is within the sweep's.

        Raises:
            ConfigError: references, targets and rules that are broken; all of them.
        """
        cfg = self._load([_word(override) for override in overrides])
        _name_job(cfg, job)
        _raise(interpolation_mistakes(cfg))
        folder = _name_folder(cfg, in_sweep=in_sweep)
        self._check_values(cfg, chosen_options(cfg), folder)
        return cfg

    def facts(self, words: Sequence[str]) -> Facts:
        """What the rules see of an experiment, whether or not it breaks one."""
        cfg = self._load(list(words))
        _name_job(cfg, 0)
        folder = _name_folder(cfg, in_sweep=False)
        return gather_facts(cfg, chosen_options(cfg), folder)

    def sweep(self, overrides: Sequence[Override]) -> DictConfig:
        """The config of a sweep as a whole: what its runs differ in is left at its default."""
        own = [_word(override) for override in overrides if override.key_or_group.startswith(("hydra.", "sweep."))]
        return self._load(meant_choices(overrides, self.tree) + own)

    def node(self, words: Sequence[str], key: str) -> dict[str, Plain]:
        """What words give under one key of the root, unchecked, its references resolved."""
        cfg = self._load(list(words))
        _name_job(cfg, 0)
        return cast("dict[str, Plain]", OmegaConf.to_container(cfg[key], resolve=True))

    def jobs(self, overrides: Sequence[Override]) -> list[list[str]]:
        """Words of every run of a sweep. Of an interval, whose values a sweeper chooses later, both ends."""
        params = OmegaConf.select(self.sweep(overrides), "hydra.sweeper.params") or {}
        written = parse(f"{key}={values}" for key, values in params.items()).overrides
        swept = parse(_both_ends(override) for override in [*written, *overrides]).overrides
        (runs,) = BasicSweeper.split_arguments(swept, None)
        return [list(words) for words in runs]

    def _known(self, choices: list[str]) -> dict[str, Plain]:
        """Keys and values under some choices of options; the same for many jobs of a sweep."""
        if tuple(choices) not in self.known:
            self.known[tuple(choices)] = known_values(self._load(choices))
        return self.known[tuple(choices)]

    def _load(self, words: list[str]) -> DictConfig:
        try:
            return self.loader.load_configuration(self.tree.name, words, RunMode.RUN, from_shell=False)
        except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
            raise ConfigError(_without_advice(error)) from error

    def _overlay_mistakes(self, cfg: DictConfig) -> list[str]:
        """Keys that an experiment or another overlay writes and that nothing but the overlay has: misspelt ones."""
        choices = {group: option for group, option in chosen_options(cfg).items() if "@" not in group}
        overlays = [(group, option) for group, option in choices.items() if self.tree.is_overlay(group, option)]
        if not overlays:
            return []
        kept = [f"{group}={option}" for group, option in choices.items() if (group, option) not in overlays]
        values = known_values(self._load(kept + [f"~{group}" for group, _ in overlays]))
        composed = Composed(values, self.tree.groups())
        optional = {group for group, choice in self.tree.choices().items() if choice.optional}
        return [
            f"{mistake} ({self._label(group, option)})"
            + (f"\n    try: ~{group}, which leaves that file out" if group in optional else "")
            for group, option in overlays
            for mistake in written_mistakes(sorted(self.tree.keys(group, option)), composed, self.tree)
        ]

    def _check_values(self, cfg: DictConfig, choices: Mapping[str, str], folder: RunFolder) -> None:
        """Rules and targets first: a rule that refuses a backbone says more than the keys that it does not take."""
        plain = OmegaConf.to_container(cfg, resolve=True)
        assert isinstance(plain, dict)
        resume = plain.get("resume")
        if isinstance(resume, str) and is_run_folder(Path(resume).expanduser()):
            # what that folder says was started may be another person's
            stored = {str(key): node for key, node in plain.items() if key != "hydra"}
            check_trust(stored, packages=[str(package) for package in plain.get("trust") or []])
        nodes = list(target_nodes({str(key): node for key, node in plain.items() if key != "hydra"}))
        places = [(node, self._where(node, choices)) for node in nodes]
        mistakes = [mistake for node, where in places for mistake in location_mistakes(node, where=where)]
        try:
            check(at_its_machine(gather_facts(cfg, choices, folder), cfg))
        except ConfigError as error:
            mistakes.append(str(error))
        _raise(mistakes)
        _raise(self._overlay_mistakes(cfg))
        for node, where in places:
            own = {key: value for key, value in node.values.items() if key not in INTERPRETED.get(node.key, ())}
            known = SUPPLIED.get(node.key, frozenset())
            mistakes += key_mistakes(node._replace(values=own), where=where, supplied=known)
        _raise(mistakes)

    def _where(self, node: Node, choices: Mapping[str, str]) -> str:
        """The file that writes a node: the chosen option that names its target, options of the node's group first."""
        group, target = node.key.partition(".")[0], str(node.values["_target_"])
        by_nearness = sorted(choices.items(), key=lambda choice: choice[0].split("/")[0] != group)
        for name, option in by_nearness:
            file = self.tree.file(name.split("@")[0], option)
            if file is not None and target in file.read_text():
                return self._label(name.split("@")[0], option)
        return "the command line"

    def _label(self, group: str, option: str) -> str:
        return f"{self.tree.folders[0].name}/{group}/{option}.yaml"


def _name_job(cfg: DictConfig, job: int) -> None:
    with read_write(cfg), open_dict(cfg):
        cfg.hydra.job.num = job
    HydraConfig.instance().set_config(cfg)  # ${hydra:...} reads it


def _name_folder(cfg: DictConfig, *, in_sweep: bool) -> RunFolder:
    hydra = cfg.hydra
    written = OmegaConf.to_container(hydra.sweep if in_sweep else hydra.run, resolve=False)
    assert isinstance(written, dict)
    path = os.path.abspath(os.path.join(hydra.sweep.dir, hydra.sweep.subdir) if in_sweep else hydra.run.dir)
    with read_write(hydra.runtime), open_dict(hydra.runtime):
        hydra.runtime.output_dir = path
    HydraConfig.instance().set_config(cfg)
    return RunFolder(Path(path), is_new="${now:" in str(written["dir"]))


def _raise(mistakes: list[str]) -> None:
    if mistakes:
        raise ConfigError("\n".join(mistakes))


def _word(override: Override) -> str:
    assert override.input_line is not None  # the parser always keeps it
    return override.input_line


def _both_ends(override: Override) -> str:
    interval = override.value()
    if not isinstance(interval, IntervalSweep):
        return _word(override)
    return f"{override.get_key_element()}={interval.start},{interval.end}"


def _without_advice(error: Exception) -> str:
    """Hydra's text, without its advice to add what it does not know."""
    causes = [str(error)] if error.__cause__ is None else [str(error), str(error.__cause__)]
    lines = [line for text in causes for line in text.splitlines()]
    unwanted = re.compile(r"To append to your|Config search path|provider=|full_key:|object_type=|^\s*$")
    return "\n".join(line for line in lines if not unwanted.search(line))


def chosen_options(cfg: DictConfig) -> dict[str, str]:
    """The option chosen in every group, Hydra's own left out, from a config with its hydra node."""
    choices = cfg.hydra.runtime.choices.items()
    return {str(group): str(option) for group, option in choices if option and not str(group).startswith("hydra/")}


@contextmanager
def open_composer(tree: ConfigTree) -> Iterator[Composer]:
    """A composer over a tree of YAML files; Hydra's global state is as before when it closes."""
    version.setbase(VERSION_BASE)
    search_path = create_config_search_path(str(tree.folders[0]))
    for folder in tree.folders[1:]:
        anchor = SearchPathQuery(provider="schema")
        search_path.prepend(provider="command-line", path=f"file://{folder}", anchor=anchor)
    # Hydra is a singleton per process: a run that is under way in a notebook or a test keeps its own
    hydra = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        created = Hydra.create_main_hydra2(task_name="train", config_search_path=search_path)
        register()
        yield Composer(tree, created.config_loader, {})
    finally:
        GlobalHydra.instance().hydra = hydra
