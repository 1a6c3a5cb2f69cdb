"""Files of a run folder as they are at this moment: not there yet, cut short by a kill, or whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import yaml

from spt.config.tree import Plain
from spt.reporting.metric_rows import read_metrics

try:  # ten times as fast, which is felt with a hundred jobs; not in every build of PyYAML
    from yaml import CSafeLoader as _Loader
except ImportError:
    from yaml import SafeLoader as _Loader

T = TypeVar("T")


class Reader:
    """Reads a folder's files, and keeps what could not be read.

    Args:
        folder: to read in.

    Attributes:
        problems: one line for every file that is there and cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []

    def json(self, name: str) -> dict[str, Plain]:
        """An object of JSON; empty where there is none."""
        return self._mapping(name, json.loads)

    def yaml(self, name: str) -> dict[str, Plain]:
        """A mapping of YAML; empty where there is none."""
        return self._mapping(name, _load_yaml)

    def words(self, name: str) -> list[str] | None:
        """A list of words in YAML; None where there is none."""
        content = self._content(name, _load_yaml)
        return [str(word) for word in content] if isinstance(content, list) else None

    def rows(self, name: str) -> list[dict[str, float]]:
        """Rows of a metrics.csv, without those that name no step."""
        try:
            return [row for row in read_metrics(self.folder / name) if "step" in row]
        except (ValueError, TypeError, OSError) as error:  # a cell that is no number, or too many of them
            self._note(name, error)
            return []

    def tail(self, name: str, num_lines: int) -> list[str]:
        """The last lines of a text."""
        file = self.folder / name
        if not file.is_file():
            return []
        return file.read_text(encoding="utf-8", errors="replace").splitlines()[-num_lines:]

    def _mapping(self, name: str, load: Callable[[str], object]) -> dict[str, Plain]:
        content = self._content(name, load)
        if content is None:
            return {}
        if not isinstance(content, Mapping):
            self.problems.append(f"{name} cannot be read: it is not a mapping.")
            return {}
        return {str(key): value for key, value in content.items()}

    def _content(self, name: str, load: Callable[[str], T]) -> T | None:
        file = self.folder / name
        if not file.is_file():
            return None
        try:
            return load(file.read_text(encoding="utf-8"))
        except (ValueError, OSError, yaml.YAMLError) as error:
            self._note(name, error)
            return None

    def _note(self, name: str, error: Exception) -> None:
        self.problems.append(f"{name} cannot be read: {' '.join(str(error).split())}")


def flat(node: Plain, prefix: str = "") -> dict[str, Plain]:
    """Dotted keys of nested mappings with their values; a list is one value."""
    if not isinstance(node, dict):
        return {prefix: node}
    if not node and prefix:
        return {prefix: "{}"}
    inner = (flat(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in node.items())
    return {key: value for part in inner for key, value in part.items()}


def shown(value: Plain) -> str:
    """A value as YAML and the command line write it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _load_yaml(text: str) -> object:
    return yaml.load(text, Loader=_Loader)
