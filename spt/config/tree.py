"""The folder of YAML files as plain files: groups, options, keys. Read without Hydra, so that errors come at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from spt.config.errors import ConfigError

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
"""What a YAML file holds."""


class Choice(NamedTuple):
    """One line of the defaults list of config.yaml.

    Attributes:
        group: for example "method".
        option: what is chosen unless the command line says otherwise; None when nothing is.
        optional: nothing happens when the option's file does not exist.
    """

    group: str
    option: str | None
    optional: bool


class ConfigTree(NamedTuple):
    """Folders with YAML files, as Hydra searches them.

    Attributes:
        folders: the first holds config.yaml; the others add options to its groups.
        name: the file that composition starts from, without its ending.
    """

    folders: tuple[Path, ...]
    name: str = "config"

    def groups(self) -> list[str]:
        """Folders that hold options, for example "method" or "views/view", and the groups of the defaults list.

        Hydra's own groups are left out: they have options that are in no folder of ours.
        """
        found = {
            file.parent.relative_to(folder).as_posix() for folder in self.folders for file in folder.glob("*/**/*.yaml")
        }
        return sorted(group for group in {*found, *self.choices()} if not group.startswith("hydra/"))

    def options(self, group: str) -> list[str]:
        """Names of a group's options, sorted; empty when there is no such group."""
        return sorted({file.stem for folder in self.folders for file in (folder / group).glob("*.yaml")})

    def file(self, group: str, option: str) -> Path | None:
        """The file of an option, or None when there is none."""
        candidates = (folder / group / f"{option}.yaml" for folder in self.folders)
        return next((file for file in candidates if file.is_file()), None)

    def keys(self, group: str, option: str) -> set[str]:
        """Dotted keys that an option's own file writes, for example {"momentum", "momentum.start"}."""
        file = self.file(group, option)
        return set() if file is None else set(dotted_keys(read_yaml(file)))

    def is_overlay(self, group: str, option: str) -> bool:
        """Whether an option writes into the whole config (`# @package _global_`), as experiments do."""
        file = self.file(group, option)
        return file is not None and file.read_text().lstrip().startswith("# @package _global_")

    def choices(self) -> dict[str, Choice]:
        """The defaults list of config.yaml, by group."""
        entries = read_yaml(self.folders[0] / f"{self.name}.yaml").get("defaults")
        found = [_choice(entry) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        return {choice.group: choice for choice in found}


def _choice(entry: Mapping[str, Plain]) -> Choice:
    ((words, option),) = entry.items()
    *keywords, group = words.split()
    return Choice(group.split("@")[0].strip("/"), option if isinstance(option, str) else None, "optional" in keywords)


@cache
def read_yaml(file: Path) -> dict[str, Plain]:
    """The mapping that a YAML file holds; empty for an empty file.

    Raises:
        ConfigError: the file is not YAML.
    """
    try:
        content = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from error
    return content if isinstance(content, dict) else {}


def dotted_keys(node: Plain, prefix: str = "") -> Iterator[str]:
    """Keys of nested mappings, dots between levels, parents before children; the defaults list is left out."""
    if not isinstance(node, dict):
        return
    for key, child in node.items():
        if prefix == "" and key == "defaults":
            continue
        yield f"{prefix}{key}"
        yield from dotted_keys(child, f"{prefix}{key}.")


def project_tree() -> ConfigTree:
    """The conf folder beside the spt package.

    Raises:
        ConfigError: there is none; the package was installed without its repository.
    """
    folder = Path(__file__).resolve().parents[2] / "conf"
    if not (folder / "config.yaml").is_file():
        raise ConfigError(
            f"No configuration found: {folder / 'config.yaml'} does not exist. The YAML files live in the repository, "
            "not in the installed package; clone it and install it in place: pip install -e ."
        )
    return ConfigTree((folder,))
