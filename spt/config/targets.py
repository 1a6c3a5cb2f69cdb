"""What `_target_` names stand for: whether they exist, which keys they take, which facts their classes state."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from spt.config.closest import closest
from spt.config.sources import OWN_PACKAGES, Found, Missing, bases, find_definition
from spt.config.tree import Plain

HYDRA_KEYS = frozenset({"_target_", "_partial_", "_args_", "_convert_", "_recursive_"})

Literal = None | bool | int | float | str


class Parameter(NamedTuple):
    """One keyword of a constructor or function."""

    name: str
    required: bool


class Signature(NamedTuple):
    """The keywords that a target takes.

    Attributes:
        parameters: in the order of the source.
        takes_any: further keywords are accepted too (**options).
    """

    parameters: list[Parameter]
    takes_any: bool


def signature(target: str) -> Signature | None:
    """The keywords of a class's constructor or of a function; None when its source does not tell."""
    found = find_definition(target)
    return _signature(found) if isinstance(found, Found) else None


def _signature(found: Found) -> Signature | None:
    definition = found.definition
    if not isinstance(definition, ast.ClassDef):
        return _of_function(definition, skip=0)
    if _is_record(definition):
        return Signature(_fields(found), takes_any=False)
    for statement in definition.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            return _of_function(statement, skip=1)
    for base in bases(found):
        if base is None or base.module.name.split(".")[0] not in OWN_PACKAGES:
            return None
        inherited = _signature(base)
        if inherited is not None:
            return inherited
    return None


def _of_function(function: ast.FunctionDef | ast.AsyncFunctionDef, *, skip: int) -> Signature:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    parameters = [Parameter(arg.arg, i < first_default) for i, arg in enumerate(positional)][skip:]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    parameters += [Parameter(arg.arg, default is None) for arg, default in keywords]
    return Signature(parameters, takes_any=arguments.kwarg is not None)


def _is_record(definition: ast.ClassDef) -> bool:
    """Whether the constructor is made from annotated fields: a dataclass or a NamedTuple."""
    decorators = [ast.unparse(decorator).split("(")[0] for decorator in definition.decorator_list]
    parents = [ast.unparse(base) for base in definition.bases]
    return any(name.endswith(("dataclass", "NamedTuple")) for name in [*decorators, *parents])


def _fields(found: Found) -> list[Parameter]:
    fields: dict[str, Parameter] = {}
    for base in bases(found):
        if base is not None and isinstance(base.definition, ast.ClassDef) and _is_record(base.definition):
            fields.update({field.name: field for field in _fields(base)})
    for statement in found.definition.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        value = "" if statement.value is None else ast.unparse(statement.value)
        if "ClassVar" not in ast.unparse(statement.annotation) and "init=False" not in value:
            fields[statement.target.id] = Parameter(statement.target.id, statement.value is None)
    return list(fields.values())


def class_literals(target: str) -> dict[str, Literal]:
    """Class attributes that are written as plain literals, those of base classes in spt and methods included."""
    found = find_definition(target)
    return _literals(found) if isinstance(found, Found) else {}


def _literals(found: Found) -> dict[str, Literal]:
    literals: dict[str, Literal] = {}
    for base in reversed(bases(found)):
        if base is not None and base.module.name.split(".")[0] in OWN_PACKAGES:
            literals.update(_literals(base))
    if not isinstance(found.definition, ast.ClassDef):
        return literals
    for statement in found.definition.body:
        if isinstance(statement, ast.AnnAssign):
            targets: list[ast.expr] = [statement.target]
        elif isinstance(statement, ast.Assign):
            targets = statement.targets
        else:
            continue
        if isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, Literal):
            literals.update({name.id: statement.value.value for name in targets if isinstance(name, ast.Name)})
    return literals


class Node(NamedTuple):
    """A mapping with a `_target_`, and its dotted key ("" for the root)."""

    key: str
    values: Mapping[str, Plain]


def target_nodes(config: Plain, key: str = "") -> Iterator[Node]:
    """Every node of a resolved config that has a `_target_`, outermost first."""
    if isinstance(config, dict):
        if "_target_" in config:
            yield Node(key, config)
        for name, child in config.items():
            yield from target_nodes(child, f"{key}.{name}" if key else name)
    elif isinstance(config, list):
        for index, child in enumerate(config):
            yield from target_nodes(child, f"{key}.{index}")


def location_mistakes(node: Node, *, where: str) -> list[str]:
    """What is wrong with the name of a node's target.

    Args:
        node: from a resolved config.
        where: the file that writes the node, for the message.
    """
    target = node.values["_target_"]
    if not isinstance(target, str):
        return [f"{node.key}._target_={target} is no name ({where}).\n    try: {node.key}._target_=package.module.Name"]
    found = find_definition(target)
    return [_missing(node.key, target, found, where)] if isinstance(found, Missing) else []


def key_mistakes(node: Node, *, where: str, supplied: frozenset[str]) -> list[str]:
    """Keys that a target of this project does not take, and keys that it lacks; nothing is said about other packages.

    Args:
        node: from a resolved config, with a target that exists.
        where: the file that writes the node, for the message.
        supplied: parameters that code gives when it builds the node, so that YAML need not.
    """
    target = str(node.values["_target_"])
    expected = signature(target) if target.split(".")[0] in OWN_PACKAGES else None
    if expected is None:
        return []
    names = [parameter.name for parameter in expected.parameters]
    mistakes = []
    for key in node.values:
        if key not in names and key not in HYDRA_KEYS and not expected.takes_any:
            near = closest(key, [name for name in names if name not in supplied])
            advice = f"did you mean: {', '.join(near)}" if near else f"it takes: {', '.join(names) or 'no keys'}"
            mistakes.append(f"{node.key}.{key}: {target} takes no {key} ({where}).\n    {advice}")
    if node.values.get("_partial_") is True:
        return mistakes  # the rest is given when it is called
    for parameter in expected.parameters:
        if parameter.required and parameter.name not in node.values and parameter.name not in supplied:
            mistakes.append(
                f"{node.key}.{parameter.name} is missing: {target} needs it ({where}).\n"
                f"    try: add {parameter.name} to that file"
            )
    return mistakes


def _missing(key: str, target: str, missing: Missing, where: str) -> str:
    fact = f"{key}._target_={target} cannot be found ({where}): "
    if missing.parent == "":
        near = closest(missing.name, OWN_PACKAGES)
        advice = f"did you mean: {near[0]}{target[len(missing.name) :]}" if near else f"try: pip install {missing.name}"
        return f"{fact}no package {missing.name} is installed.\n    {advice}"
    near = closest(missing.name, [name for name in missing.names if not name.startswith("_")])
    rest = target[len(missing.parent) + 1 + len(missing.name) :]
    advice = ", ".join(f"{missing.parent}.{name}{rest}" for name in near)
    listed = ", ".join(sorted(name for name in missing.names if not name.startswith("_")))
    fact = f"{fact}{missing.parent} has no {missing.name}."
    return f"{fact}\n    did you mean: {advice}" if near else f"{fact}\n    it has: {listed}"
