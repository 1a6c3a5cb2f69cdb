"""What an evaluation is of, as far as names, YAML and headers tell: no weights are read, and no torch imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import yaml

from spt.checkpoint.resume import CHECKPOINTS, is_run_folder
from spt.config.errors import ConfigError
from spt.config.tree import Plain, read_yaml

TIMM = "timm:"
_EXPORTS = "export"  # in a run folder: where exported networks go


class Source(NamedTuple):
    """Where a network to be evaluated comes from.

    Attributes:
        text: as it was typed.
        path: of the run folder, checkpoint or exported file; None for a timm name.
        run_folder: of the run that trained it, if that is at hand.
        folder: where results go, in `evaluation`; None where nothing says.
        data: the option of the data group that it was trained on, if it is known.
    """

    text: str
    path: Path | None
    run_folder: Path | None
    folder: Path | None
    data: str | None

    @property
    def timm_name(self) -> str | None:
        """Of a model of timm."""
        return self.text.removeprefix(TIMM) if self.path is None else None

    def config(self) -> dict[str, Plain]:
        """Of the run, resolved; empty where there is none. Not to be built before spt.config.trust has seen it."""
        file = None if self.run_folder is None else self.run_folder / "config_resolved.yaml"
        return read_yaml(file) if file is not None and file.is_file() else {}


def read_source(text: str | None) -> Source:
    """What `source=...` names.

    Raises:
        ConfigError: nothing, or nothing that can be evaluated; says what can.
    """
    if not text:
        raise ConfigError(
            "Evaluate what? source is not given.\n"
            "    try: source=<a run folder>, source=<a checkpoint>, source=<an exported file>.safetensors, or "
            f"source={TIMM}<a model of timm>"
        )
    if text.startswith(TIMM):
        return Source(text, None, None, None, None)
    path = Path(text).expanduser()
    if not path.exists():
        raise ConfigError(
            f"source={text} does not exist.\n    try: source=<the folder that a run has left>, a checkpoint or an "
            f"exported file in it, or source={TIMM}{path.name} if it is the name of a timm model"
        )
    run_folder = next((parent for parent in _candidates(path.resolve()) if is_run_folder(parent)), None)
    if run_folder is not None:
        return Source(text, path, run_folder, run_folder, _data_of_run(run_folder))
    if exported_file(path) is not None:
        return Source(text, path, None, path.parent, read_header(path).get("data") or None)
    return Source(text, path, None, path.parent, None)


def _candidates(path: Path) -> list[Path]:
    """The folders that may be the run's: the path itself, and those above a checkpoint or an exported network."""
    found = [path] if path.is_dir() else []
    return [*found, *(parent.parent for parent in path.parents if parent.name in (CHECKPOINTS, _EXPORTS))]


def exported_file(path: Path) -> Path | None:
    """The safetensors file of an exported network, if that is what a path is: the file, or timm's folder around it."""
    file = path / "model.safetensors" if path.is_dir() else path
    return file if file.suffix == ".safetensors" and file.is_file() else None


def read_header(path: Path) -> dict[str, str]:
    """The metadata in an exported file.

    Raises:
        ConfigError: it is no safetensors file.
    """
    file = exported_file(path)
    assert file is not None, "asked of exported files"
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(length) if length < 2**27 else b"")
        metadata = header["__metadata__"]
        return {str(key): str(value) for key, value in metadata.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(
            f"source={path} says nothing about its network: it was not written by scripts/export_backbone.py.\n"
            "    try: python scripts/export_backbone.py run=<its run folder>"
        ) from None


def _data_of_run(folder: Path) -> str | None:
    """The option of the data group that the run chose."""
    composed = folder / ".hydra" / "hydra.yaml"
    if composed.is_file():  # not there for a run of a notebook
        node: Plain = yaml.safe_load(composed.read_text(encoding="utf-8"))
        for key in ("hydra", "runtime", "choices", "data"):
            node = node.get(key) if isinstance(node, dict) else None
        if isinstance(node, str):
            return node
    summary = folder / "summary.json"
    if not summary.is_file():
        return None
    option = json.loads(summary.read_text(encoding="utf-8")).get("data")
    return option if isinstance(option, str) else None
