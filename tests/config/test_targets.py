"""`_target_` names compared with source files that are never imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spt.config.sources import Found, Missing, find_definition
from spt.config.targets import (
    Node,
    Parameter,
    Signature,
    class_literals,
    key_mistakes,
    location_mistakes,
    signature,
    target_nodes,
)

MODULE = """
from __future__ import annotations

import functools as tools
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from torch import nn

from methods import shared
from .shared import Parent

raise RuntimeError("this file must not be run")


class Child(Parent):
    gives_tokens = True


class Replaced(shared.Parent):
    has_teacher: ClassVar[bool] = False
    limit: int = 3 + 4

    def __init__(self, first, /, second, *, third=1, fourth, **rest): ...


@dataclass(frozen=True)
class Record:
    width: int
    depth: int = 2
    kind: ClassVar[str] = "record"
    cache: dict = field(init=False)


class Row(NamedTuple):
    left: int
    right: int = 0


class Foreign(nn.Module):
    pass


def build(name, *, size): ...


if True:
    from .shared import *
"""
SHARED = """
class Parent:
    has_teacher = True
    gives_tokens: bool = False

    def __init__(self, width, *, depth=3): ...


def starred(): ...
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package called methods, in front of the real one, whose modules must not be run."""
    folder = tmp_path / "methods"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "sample.py").write_text(MODULE)
    (folder / "shared.py").write_text(SHARED)
    monkeypatch.syspath_prepend(str(tmp_path))
    real = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "methods"}
    yield "methods.sample"
    assert not any(name.split(".")[0] == "methods" for name in sys.modules)
    sys.modules.update(real)


def test_a_class_is_found_without_running_its_module(package: str) -> None:
    found = find_definition(f"{package}.Child")
    assert isinstance(found, Found)
    assert found.module.name == package


def test_a_name_taken_over_by_star_is_found(package: str) -> None:
    assert isinstance(find_definition(f"{package}.starred"), Found)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Child", [Parameter("width", True), Parameter("depth", False)]),
        ("Record", [Parameter("width", True), Parameter("depth", False)]),
        ("Row", [Parameter("left", True), Parameter("right", False)]),
        ("build", [Parameter("name", True), Parameter("size", True)]),
    ],
)
def test_parameters_are_those_of_the_constructor(package: str, name: str, parameters: list[Parameter]) -> None:
    assert signature(f"{package}.{name}") == Signature(parameters, takes_any=False)


def test_keyword_options_take_any_key(package: str) -> None:
    found = signature(f"{package}.Replaced")
    assert found is not None
    assert found.takes_any
    assert found.parameters == [
        Parameter(name, required)
        for name, required in (("first", True), ("second", True), ("third", False), ("fourth", True))
    ]


def test_a_constructor_of_another_package_is_left_alone(package: str) -> None:
    assert signature(f"{package}.Foreign") is None


def test_literals_come_from_bases_and_are_overridden(package: str) -> None:
    assert class_literals(f"{package}.Child") == {"has_teacher": True, "gives_tokens": True}
    assert class_literals(f"{package}.Replaced") == {"has_teacher": False, "gives_tokens": False}
    assert class_literals(f"{package}.build") == {}


@pytest.mark.parametrize(
    "target",
    ["torch.optim.AdamW", "torch.nn.Linear", "timm.create_model", "lightning.pytorch.callbacks.ModelCheckpoint",
     "collections.deque", "functools.partial", "pathlib.Path", "builtins.dict", "os.path.join", "spt.method.Method"],
)  # fmt: skip
def test_targets_that_exist_are_not_refused(target: str) -> None:
    assert not isinstance(find_definition(target), Missing)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("spt.schedules.Cosin", "did you mean: spt.schedules.Cosine"),
        ("spt.schedule.Cosine", "did you mean: spt.schedules.Cosine"),
        ("sptt.schedules.Cosine", "did you mean: spt.schedules.Cosine"),
        ("torch.optim.AdmW", "torch.optim.AdamW"),
        ("nowhere.to.be.Found", "pip install nowhere"),
    ],
)
def test_a_target_that_does_not_exist_is_named_with_file_key_and_nearest_match(target: str, text: str) -> None:
    (mistake,) = location_mistakes(Node("optimizer.lr", {"_target_": target}), where="conf/optimizer/sgd.yaml")
    for expected in ("optimizer.lr._target_", target, "conf/optimizer/sgd.yaml", text):
        assert expected in mistake


def test_keys_that_a_target_does_not_take_or_lacks_are_named() -> None:
    node = Node("schedule", {"_target_": "spt.schedules.Linear", "strat": 0.1, "end": 0.2})
    unknown, *missing = key_mistakes(node, where="conf/x.yaml", supplied=frozenset({"counting"}))
    assert "takes no strat (conf/x.yaml)" in unknown
    assert "did you mean: start" in unknown
    assert [mistake.split(" ")[0] for mistake in missing] == ["schedule.start"]


def test_a_partial_target_may_lack_keys_but_not_invent_them() -> None:
    node = Node("schedule", {"_target_": "spt.schedules.Linear", "_partial_": True, "width": 3})
    mistakes = key_mistakes(node, where="", supplied=frozenset())
    assert [mistake.split(" ")[0] for mistake in mistakes] == ["schedule.width:"]


def test_nodes_are_found_at_every_depth() -> None:
    config = {"a": {"_target_": "x", "b": [{"_target_": "y"}]}, "c": 1}
    assert [node.key for node in target_nodes(config)] == ["a", "a.b.0"]
