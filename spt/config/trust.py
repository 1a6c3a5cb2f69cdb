"""Whether a config from elsewhere may be built: which code it names. Nothing of it is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import yaml

from spt.config.errors import ConfigError
from spt.config.sources import Module, read_module, written_origin
from spt.config.targets import target_nodes
from spt.config.tree import Plain

TRUSTED = ("spt", "methods", "torch", "torchvision", "timm", "lightning")
"""Packages whose classes and functions a config may name unasked."""

# of a package that does more than build networks, the parts that do only that
_PARTS = {"torch": ("torch.nn", "torch.optim", "torch.utils.data", "torch.distributed.fsdp",
                    "torch.distributed.device_mesh", "torch.profiler")}  # fmt: skip

# whoever calls these loads or runs what the config's author chose: files, downloads, processes, other configs
_RUNS_CODE = (
    "*.load", "*.load_*", "*.from_pretrained", "*.download*", "*.spawn*", "*.start_process*",
    "spt.compose", "spt.train", "spt.run.*", "spt.config.*", "spt.launch.*", "spt.testing.*",
    "torch.utils.data.datapipes.*",
    "torchvision.datasets.utils.*", "torchvision.extension.*",
    "timm.models._helpers.*", "timm.models._hub.*", "timm.models._builder.*", "timm.utils.*",
    "timm.data.create_*", "timm.data.*_factory.*", "timm.data.readers.*",
    "lightning.pytorch.cli.*", "lightning.fabric.cli.*", "lightning.fabric.plugins.io.*", "lightning.app.*",
    "lightning.pytorch.core.saving.*", "lightning.pytorch.utilities.*", "lightning.fabric.utilities.*",
)  # fmt: skip

# arguments by which a function of a trusted package reads a file that the config names, unpickling what is in it
_FILES = frozenset({"checkpoint_path", "pretrained_cfg", "pretrained_cfg_overlay"})
_ADDRESS = re.compile(r"(hf[-_]hub|local-dir):", re.IGNORECASE)

_NAME = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)+")  # no part begins with an underscore


def parse_stored(text: str, *, packages: Sequence[str]) -> dict[str, Plain]:
    """The config that a checkpoint or a run folder holds, if everything in it may be built.

    Args:
        text: YAML, resolved.
        packages: further packages that the user trusts.

    Raises:
        ConfigError: it is no YAML, or names code that is not trusted.
    """
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"The stored config is no YAML: {error}") from None
    if not isinstance(config, dict):
        raise ConfigError("The stored config is no mapping of keys to values; it was not written by a run.")
    check_trust(config, packages=packages)
    return config


def check_trust(config: Plain, *, packages: Sequence[str]) -> None:
    """Asks that a config names only code that may be run.

    Args:
        config: nested and resolved: what it refers to by ${...} could not be checked.
        packages: further packages that the user trusts, or parts of one, dotted.

    Raises:
        ConfigError: lists key and target of everything that is not allowed.
    """
    mistakes = [*_untrusted_targets(config, (*TRUSTED, *packages), packages), *_untrusted_values(config)]
    if mistakes:
        raise ConfigError(
            "The config comes from a checkpoint or another run, and is not built, for it would run code that is not "
            "trusted:\n" + "\n".join(f"    {mistake}" for mistake in mistakes) + "\n"
            "    try: if you know its author, name the packages: trust=[<package>,<package>]"
        )


def _untrusted_targets(config: Plain, trusted: tuple[str, ...], named: Sequence[str]) -> Iterator[str]:
    for node in target_nodes(config):
        target = node.values["_target_"]
        reason = _reason(target, trusted, tuple(named)) if isinstance(target, str) else "is no name"
        if reason is not None:
            yield f"{node.key}._target_={target}: {reason}".lstrip(".")


def _reason(target: str, trusted: tuple[str, ...], named: tuple[str, ...]) -> str | None:
    """Why a target may not be called; None when it may."""
    if not _NAME.fullmatch(target):
        return "is not the dotted public name of a class or function"
    if not _is_within(target, trusted):
        return f"is not of {', '.join(trusted)}"
    home = defined_as(target)
    if home is None:
        return "cannot be traced to where it is defined"
    if not _is_within(home, trusted):
        return f"is {home}, which is not of {', '.join(trusted)}"
    for name in (target, home):
        if _is_within(name, named):
            continue
        parts = _PARTS.get(name.split(".")[0])
        if parts is not None and not _is_within(name, parts):
            return f"{'is ' + home if home != target else 'it'} is outside of {', '.join(parts)}"
        if any(fnmatchcase(name, pattern) for pattern in _RUNS_CODE):
            return "loads or runs other code"
    return None


def _is_within(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _untrusted_values(config: Plain, key: str = "") -> Iterator[str]:
    if isinstance(config, dict):
        for name, child in config.items():
            inner = f"{key}.{name}" if key else str(name)
            if name in _FILES and child is not None:
                yield f"{inner}={child}: names a file or an address to load weights from"
            else:
                yield from _untrusted_values(child, inner)
    elif isinstance(config, list):
        for index, child in enumerate(config):
            yield from _untrusted_values(child, f"{key}.{index}")
    elif isinstance(config, str):
        if "${" in config:
            yield f"{key}={config}: refers to something else, and is not resolved"
        if _ADDRESS.match(config):
            yield f"{key}={config}: names an address to load weights from"


def defined_as(target: str) -> str | None:
    """The dotted name under which the source of a package defines what `target` stands for.

    Follows imports from file to file, so that `spt.run.logging.Formatter` is found to be logging's.

    Returns:
        None when it is no class, function or method, or when the source does not tell.
    """
    return _follow(target, depth=0)


def _follow(target: str, *, depth: int) -> str | None:
    top, *rest = target.split(".")
    spec = find_spec(top) if depth < 20 else None  # a top-level name: nothing is imported
    if spec is None:
        return None
    folders = spec.submodule_search_locations
    name, folder = top, Path(next(iter(folders))) if folders is not None else None
    while folder is not None and rest and (folder / rest[0]).is_dir():
        name, folder, rest = f"{name}.{rest[0]}", folder / rest[0], rest[1:]
    if folder is not None and rest and (folder / f"{rest[0]}.py").is_file():
        name, file, rest = f"{name}.{rest[0]}", folder / f"{rest[0]}.py", rest[1:]
    else:
        file = folder / "__init__.py" if folder is not None else Path(spec.origin or "")
    if not rest or file.suffix != ".py" or not file.is_file():
        return ".".join([name, *rest]) if depth else None  # a compiled module: its name is all there is to know
    return _in_source(read_module(name, file), rest, depth)


def _in_source(module: Module, rest: list[str], depth: int) -> str | None:
    name, *inner = rest
    if name not in module.names:
        found = (_follow(".".join([star, *rest]), depth=depth + 1) for star in module.stars)
        return next((home for home in found if home is not None), None)
    statement = module.names[name]
    whole = ".".join([module.name, *rest])
    if isinstance(statement, ast.ClassDef):
        return whole if len(inner) <= 1 else None  # a class or a method of one
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return whole if not inner else None
    if isinstance(statement, ast.ImportFrom):
        alias = next(alias for alias in statement.names if (alias.asname or alias.name) == name)
        origin = written_origin(statement, module.name, module.file)
        return _follow(".".join([*origin, alias.name, *inner]), depth=depth + 1)
    if isinstance(statement, ast.Import):
        alias = next(alias for alias in statement.names if (alias.asname or alias.name.split(".")[0]) == name)
        return _follow(".".join([alias.name if alias.asname else name, *inner]), depth=depth + 1)
    return None
