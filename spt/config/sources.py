"""Classes and functions read from their source files without importing them, so that a check needs no torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.machinery import SOURCE_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

OWN_PACKAGES = ("spt", "methods")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Names = dict[str, ast.stmt | None]


class Module(NamedTuple):
    """A module's source.

    Attributes:
        name: dotted.
        file: where it was read from.
        names: what it defines or imports at its top level, with the statement; None for a submodule.
        stars: modules whose every name it takes over (import *), dotted.
        is_open: names may exist that the source does not show (a module-level __getattr__).
    """

    name: str
    file: Path
    names: Names
    stars: list[str]
    is_open: bool


class Found(NamedTuple):
    """A definition and the module that holds it, in whose words its bases are written."""

    definition: Definition
    module: Module


class Missing(NamedTuple):
    """A dotted name that leads nowhere.

    Attributes:
        parent: the part of it that exists.
        name: the first part that does not.
        names: what the parent has instead.
    """

    parent: str
    name: str
    names: list[str]


def find_definition(dotted: str) -> Found | Missing | None:
    """What a dotted name stands for, or None when its source does not tell (compiled, assigned, imported by *)."""
    top, *rest = dotted.split(".")
    spec = find_spec(top) if top else None  # a top-level name: nothing is imported
    if spec is None:
        return Missing("", top, [])
    if spec.origin is None and spec.submodule_search_locations is None:
        return None
    if spec.submodule_search_locations is not None:
        return _descend(top, Path(next(iter(spec.submodule_search_locations))), rest)
    file = Path(spec.origin or "")
    return _in_module(read_module(top, file), rest) if file.suffix in SOURCE_SUFFIXES else None


def _descend(name: str, folder: Path, rest: list[str]) -> Found | Missing | None:
    """Follows the parts of a dotted name through packages, then through the module that is reached."""
    while rest and (folder / rest[0]).is_dir():
        name, folder, rest = f"{name}.{rest[0]}", folder / rest[0], rest[1:]
    if rest and (folder / f"{rest[0]}.py").is_file():
        return _in_module(read_module(f"{name}.{rest[0]}", folder / f"{rest[0]}.py"), rest[1:])
    if rest and any(folder.glob(f"{rest[0]}.*")):
        return None  # a compiled module
    if (folder / "__init__.py").is_file():
        return _in_module(read_module(name, folder / "__init__.py"), rest)
    return Missing(name, rest[0], _submodules(folder)) if rest else None


def _submodules(folder: Path) -> list[str]:
    files = [file.stem for file in folder.glob("*.py")]
    return sorted({*files, *(child.name for child in folder.iterdir() if child.is_dir())} - {"__init__", "__pycache__"})


def _in_module(module: Module, rest: list[str]) -> Found | Missing | None:
    if not rest:
        return None
    name, *inner = rest
    if name not in module.names:
        starred = [find_definition(".".join([star, *rest])) for star in module.stars]
        if module.is_open or not all(isinstance(found, Missing) for found in starred):
            return next((found for found in starred if isinstance(found, Found)), None)
        siblings = _submodules(module.file.parent) if module.file.name == "__init__.py" else []
        return Missing(module.name, name, [*module.names, *siblings])
    statement = module.names[name]
    if isinstance(statement, Definition):
        # what is defined inside a class, such as an alternative constructor, is left to Python
        return None if inner else Found(statement, module)
    if isinstance(statement, ast.ImportFrom):
        alias = next(alias for alias in statement.names if (alias.asname or alias.name) == name)
        return find_definition(".".join([*written_origin(statement, module.name, module.file), alias.name, *inner]))
    return None


def written_origin(statement: ast.ImportFrom, name: str, file: Path) -> list[str]:
    """The absolute module that a from-import names, written in the module of that name and file."""
    named = statement.module.split(".") if statement.module else []
    if statement.level == 0:
        return named
    package = name.split(".")
    up = statement.level - (1 if file.name == "__init__.py" else 0)
    return [*package[: len(package) - up], *named]


@cache
def read_module(name: str, file: Path) -> Module:
    """The source of a module; a syntax error is left to Python to report when the module is imported."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError:
        return Module(name, file, {}, [], is_open=True)
    names: Names = {}
    stars = []
    for statement in _statements(tree.body):
        defined = list(_defined(statement))
        if isinstance(statement, ast.ImportFrom) and defined == ["*"]:
            stars.append(".".join(written_origin(statement, name, file)))
        names.update(dict.fromkeys(defined, statement))
    # in this project's own packages a missing name is a mistake even where a lazy __getattr__ offers others
    is_open = "__getattr__" in names and name.split(".")[0] not in OWN_PACKAGES
    return Module(name, file, names, stars, is_open)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements at the top level, those under if, try and with included."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try)):
            yield from _statements(statement.orelse)
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            yield from _statements(statement.body)
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield from _statements(handler.body)


def _defined(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, Definition):
        yield statement.name
    elif isinstance(statement, ast.Import):
        yield from (alias.asname or alias.name.split(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in statement.names)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            yield from (part.id for part in parts if isinstance(part, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id


def bases(found: Found) -> list[Found | None]:
    """The classes that a class is made from, in order; None for one whose source does not tell."""
    if not isinstance(found.definition, ast.ClassDef):
        return []
    return [_named(ast.unparse(base), found.module) for base in found.definition.bases]


def _named(written: str, module: Module) -> Found | None:
    """What a name means inside a module: nn.Module is followed through `from torch import nn`."""
    first, *rest = written.split("[")[0].split(".")
    statement = module.names.get(first)
    if isinstance(statement, ast.Import):
        whole = next((alias.name for alias in statement.names if alias.asname == first), first)
        target = find_definition(".".join([whole, *rest]))
    elif isinstance(statement, ast.ImportFrom) and rest:
        alias = next(alias for alias in statement.names if (alias.asname or alias.name) == first)
        target = find_definition(".".join([*written_origin(statement, module.name, module.file), alias.name, *rest]))
    else:
        target = _in_module(module, [first, *rest])
    return target if isinstance(target, Found) else None
