"""References between keys: every `${...}` of a config followed once, so that a broken one is named by its key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from spt.config.closest import closest
from spt.config.tree import Plain


def interpolation_mistakes(cfg: DictConfig) -> list[str]:
    """Every reference that leads nowhere and every value still missing ("???"), the hydra node left out."""
    raw = OmegaConf.to_container(cfg, resolve=False)
    values = flatten(raw)
    mistakes = []
    for key, value in values.items():
        if key.startswith("hydra.") or not isinstance(value, str):
            continue
        if value == "???":
            mistakes.append(f"{key} has no value.\n    try: {key}=VALUE")
        elif "${" in value:
            try:
                OmegaConf.select(cfg, key, throw_on_resolution_failure=True, throw_on_missing=True)
            except OmegaConfBaseException as error:
                mistakes += _mistake(key, value, values, error)
    return mistakes


def _mistake(key: str, value: str, values: Mapping[str, Plain], error: OmegaConfBaseException) -> list[str]:
    reason = str(error).splitlines()[0]
    missing = re.search(r"Interpolation key '([^']+)' not found", reason)
    if missing and missing.group(1) not in value:
        return []  # it leads to a key that leads nowhere, and that key is reported
    near = closest(missing.group(1), [name for name in values if name != key]) if missing else []
    advice = f"'{key}=${{{near[0]}}}'" if near else f"{key}=VALUE"
    return [f"{key}={value} cannot be resolved: {reason.rstrip('.')}.\n    try: {advice}"]


def known_values(cfg: DictConfig) -> dict[str, Plain]:
    """Every dotted key with its value; a reference that leads nowhere, or not yet anywhere, stays as written."""
    values = flatten(OmegaConf.to_container(cfg, resolve=False))
    for key, value in values.items():
        if isinstance(value, str) and "${" in value and not key.startswith("hydra."):
            try:
                values[key] = OmegaConf.select(cfg, key)
            except OmegaConfBaseException:
                continue
    return values


def flatten(node: object) -> dict[str, Plain]:
    """Every dotted key of nested mappings and lists with its value; parents are there too, before their children."""
    return dict(_walk(node, ""))


def _walk(node: object, prefix: str) -> Iterator[tuple[str, Plain]]:
    pairs: list[tuple[object, object]] = []
    if isinstance(node, Mapping):
        pairs = list(node.items())
    elif isinstance(node, list):
        pairs = list(enumerate(node))
    for name, child in pairs:
        key = f"{prefix}{name}"
        plain = child if isinstance(child, (bool, int, float, list, dict)) or child is None else str(child)
        yield key, plain
        yield from _walk(child, f"{key}.")
