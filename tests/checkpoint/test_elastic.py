"""Whatever wrote a checkpoint, whatever goes on from it: the training is the one that was never stopped."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from torch import Tensor

from tests.checkpoint.elastic import SAVED_AT, Continued, Place, go_on_all, save_all
from tests.ranks import run_ranks
from tests.strategies.cases import METHODS, Outcome

SINGLE, DDP = Place("single", 1), Place("ddp", 2)
SHARDED, ALONE = Place("fsdp2", 2, "folder"), Place("fsdp2", 1, "folder")
GATHERED = Place("fsdp2", 2, "file")
PLACES = (SINGLE, DDP, SHARDED, ALONE)
SOURCES = (*PLACES, GATHERED)
WORK = [*((method, "sgd") for method in METHODS), ("dino", "adamw")]
ROUTES = [(method, rule, source, target) for method, rule in WORK for source, target in product(SOURCES, PLACES)]
# an optimizer step cut into other micro-batches; BatchNorm over a micro-batch would make it another training
ACCUMULATED = [
    ("ijepa", "sgd", SINGLE, Place("single", 1, accumulation=2)),
    ("ijepa", "sgd", DDP, Place("single", 1, accumulation=2)),
]

_folder = TemporaryDirectory()  # until the tests of this process are over


@cache
def whole() -> dict[tuple[str, str, Place], Outcome]:
    """Trainings that were never stopped, by method, rule and place."""
    folder, found = Path(_folder.name), {}
    for num_ranks in (1, 2):
        work = [(method, rule, place) for method, rule in WORK for place in SOURCES if place.num_ranks == num_ranks]
        ranks = run_ranks(save_all, num_ranks, folder, work)
        found.update(ranks[0])
    return found


@cache
def continued() -> dict[tuple[str, str, Place, Place], Continued]:
    """Trainings that went on, by method, rule, source and target."""
    whole()
    folder, found = Path(_folder.name), {}
    for num_ranks in (1, 2):
        work = [route for route in [*ROUTES, *ACCUMULATED] if route[3].num_ranks == num_ranks]
        found.update(run_ranks(go_on_all, num_ranks, folder, work)[0])
    return found


def assert_close(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=5e-5, atol=1e-5, msg=lambda text, n=name: f"{n}: {text}")


def assert_equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert [name for name, value in ours.items() if not torch.equal(value, theirs[name])] == []


@pytest.mark.parametrize(("method", "rule", "source", "target"), ROUTES, ids=str)
def test_a_training_goes_on_wherever_it_was_saved(method: str, rule: str, source: Place, target: Place) -> None:
    """Trap 19: teacher, center, momentum and counters are in it. Bit for bit where nothing else changes."""
    uninterrupted, ours = whole()[method, rule, source], continued()[method, rule, source, target].outcome
    losses = uninterrupted.losses[SAVED_AT:]
    assert len(ours.losses) == len(losses) >= 5
    if source[:2] == target[:2]:
        assert ours.losses == losses
        assert_equal(ours.state, uninterrupted.state)
    else:
        assert ours.losses == pytest.approx(losses, rel=1e-5)
        if rule == "sgd":  # AdamW turns rounding into steps
            assert_close(ours.state, uninterrupted.state)


@pytest.mark.parametrize(("method", "rule"), WORK, ids=str)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_every_place_loads_the_same_bits(method: str, rule: str, source: Place) -> None:
    """Weights, teacher, center, statistics, and what the optimizer keeps for every parameter."""
    first, *others = [continued()[method, rule, source, target] for target in PLACES]
    assert first.moments
    for other in others:
        assert_equal(other.state, first.state)
        assert_equal(other.moments, first.moments)


@pytest.mark.parametrize(("method", "rule", "source", "target"), ACCUMULATED, ids=str)
def test_another_number_of_micro_batches_goes_on_at_the_same_step(
    method: str, rule: str, source: Place, target: Place
) -> None:
    uninterrupted, ours = whole()[method, rule, source], continued()[method, rule, source, target].outcome
    losses = uninterrupted.losses[SAVED_AT:]
    assert len(ours.losses) == 2 * len(losses)
    assert_close(ours.state, uninterrupted.state)
