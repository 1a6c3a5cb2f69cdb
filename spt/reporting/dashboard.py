"""The dashboard as it is written down: which metrics and pictures are shown, and where. Plain data, no wandb needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

import yaml

from spt.config.errors import ConfigError
from spt.reporting.atomic import write_text

SPEC = Path(__file__).with_name("dashboard.yaml")

_VIEW_KEYS, _PANEL_KEYS = {"group_by", "sections"}, {"title", "metrics", "pictures", "columns", "methods"}


@dataclass(frozen=True)
class Panel:
    """One panel. With columns it is a plot of parallel coordinates, with pictures a browser, else lines.

    Attributes:
        title: what a reader looks for.
        metrics: "stage/name"; lines over optimizer steps, or, next to columns, last values.
        pictures: "pictures/name".
        columns: dotted keys of the config.
        methods: options of the method group that log what it shows; None for all.
    """

    title: str
    metrics: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    methods: tuple[str, ...] | None = None

    def is_of(self, method: str) -> bool:
        """Whether a run of that method logs what it shows."""
        return self.methods is None or method in self.methods


@dataclass(frozen=True)
class View:
    """One workspace.

    Attributes:
        name: shown for it.
        group_by: dotted keys of the config; runs that are alike in all of them form a group.
        sections: panels by the section's name.
    """

    name: str
    group_by: tuple[str, ...]
    sections: dict[str, tuple[Panel, ...]]

    @property
    def panels(self) -> list[Panel]:
        """Of all sections."""
        return [panel for panels in self.sections.values() for panel in panels]


def read_dashboard(spec: Path = SPEC, *, swept: Sequence[str] = ()) -> list[View]:
    """The views of a spec.

    Args:
        spec: a YAML file such as dashboard.yaml.
        swept: further keys of the config that runs differ in: groups are told apart by them, and parallel coordinates
            have an axis for each.

    Raises:
        ConfigError: the file is not there, or has a key that means nothing.
    """
    if not spec.is_file():
        raise ConfigError(f"{spec} does not exist; use {SPEC}, or a copy of it.")
    content = yaml.safe_load(spec.read_text(encoding="utf-8"))
    return [_view(str(name), node, swept) for name, node in content.items()]


def write_dashboard(views: Sequence[View], file: Path, *, project: str, entity: str | None) -> None:
    """Writes the views as JSON, with the project that they are for."""
    content = {"project": project, "entity": entity, "views": [asdict(view) for view in views]}
    write_text(file, json.dumps(content, indent=2) + "\n")


def _view(name: str, node: Mapping[str, object], swept: Sequence[str]) -> View:
    _refuse_unknown(name, node, _VIEW_KEYS)
    sections = cast("Mapping[str, list[Mapping[str, object]]]", node["sections"])
    group_by = _words(node.get("group_by"))
    return View(
        name,
        tuple(dict.fromkeys([*group_by, *swept])) if group_by else (),
        {
            section: tuple(_panel(f"{name}.{section}", panel, swept) for panel in panels)
            for section, panels in sections.items()
        },
    )


def _panel(where: str, node: Mapping[str, object], swept: Sequence[str]) -> Panel:
    _refuse_unknown(where, node, _PANEL_KEYS)
    panel = Panel(
        str(node["title"]),
        _words(node.get("metrics")),
        _words(node.get("pictures")),
        _words(node.get("columns")),
        _words(node["methods"]) if "methods" in node else None,
    )
    return replace(panel, columns=tuple(dict.fromkeys([*panel.columns, *swept]))) if panel.columns else panel


def _refuse_unknown(where: str, node: Mapping[str, object], known: set[str]) -> None:
    unknown = sorted(node.keys() - known)
    if unknown:
        raise ConfigError(f"{where} of the dashboard has the key {unknown[0]}; use {', '.join(sorted(known))}.")


def _words(node: object) -> tuple[str, ...]:
    return tuple(str(word) for word in cast("list[object]", node or []))
