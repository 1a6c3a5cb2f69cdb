"""Two ranks give what one process gives, whatever the strategy."""

from __future__ import annotations

import pytest
import torch

from tests.ranks import once, run_ranks
from tests.strategies.cases import METHODS, Case, Outcome, identify, train_all

ACCUMULATIONS = (1, 2)
ONCE = {"reduce_every_micro_batch": False}
COMPILED = [
    Case("dino", "fsdp2", compile="blocks"), Case("byol", "fsdp2", compile="step"),
    Case("simclr", "ddp", compile="step"), Case("ijepa", "ddp", compile="blocks"),
]  # fmt: skip
ALL = [(method, accumulation) for method in METHODS for accumulation in ACCUMULATIONS]


@once
def outcomes(num_ranks: int) -> list[dict[Case, Outcome]]:
    """Of every method with and without accumulation, by rank; all trained in one group."""
    strategies = ("single", "fsdp2") if num_ranks == 1 else ("ddp", "fsdp2")
    cases = [Case(method, name, accumulation) for method, accumulation in ALL for name in strategies]
    reduced_once = [Case(method, "fsdp2", 2, options=ONCE) for method in METHODS if num_ranks > 1]
    compiled = COMPILED if num_ranks > 1 else []
    return run_ranks(train_all, num_ranks, [*cases, *reduced_once, *compiled])


def outcome(num_ranks: int, method: str, strategy: str, accumulation: int, rank: int = 0) -> Outcome:
    return outcomes(num_ranks)[rank][Case(method, strategy, accumulation)]


def assert_equal(ours: Outcome, theirs: Outcome) -> None:
    assert ours.losses == theirs.losses
    assert ours.state.keys() == theirs.state.keys()
    different = [name for name, value in ours.state.items() if not torch.equal(value, theirs.state[name])]
    assert not different


def assert_close(ours: Outcome, theirs: Outcome) -> None:
    assert ours.losses == pytest.approx(theirs.losses, rel=5e-6)
    for name, value in theirs.state.items():
        torch.testing.assert_close(
            ours.state[name], value, rtol=2e-5, atol=5e-6, msg=lambda text, n=name: f"{n}: {text}"
        )


@pytest.mark.parametrize(("method", "accumulation"), ALL)
def test_two_ranks_of_ddp_equal_one_process(method: str, accumulation: int) -> None:
    """Traps 22, 34, 42, 43, 44, 45, 47, 49: five steps under SGD, to float32 rounding.

    What each of them would change: the center, NT-Xent's negatives, positives and their gradients across ranks, the
    gradients of BatchNorm's statistics, masks and contexts, and two forwards of BYOL within one step. Trap 53: nothing
    is unused, I-JEPA's mask token included.
    """
    ours, theirs = outcome(2, method, "ddp", accumulation), outcome(1, method, "single", accumulation)
    assert len(ours.losses) == 5 * accumulation
    assert_close(ours, theirs)


@pytest.mark.parametrize("method", METHODS)
def test_two_ranks_of_fsdp2_equal_ddp_to_the_bit(method: str) -> None:
    """Traps 14 and 15: the optimizer and the teacher move shards, odd numbers of rows among them."""
    assert_equal(outcome(2, method, "fsdp2", 1), outcome(2, method, "ddp", 1))


@pytest.mark.parametrize("method", METHODS)
def test_two_ranks_of_fsdp2_equal_ddp_under_accumulation(method: str) -> None:
    """To rounding: fsdp2 averages over ranks before it adds up micro-batches, ddp after."""
    assert_close(outcome(2, method, "fsdp2", 2), outcome(2, method, "ddp", 2))


@pytest.mark.parametrize("method", METHODS)
def test_averaging_once_a_step_equals_ddp_to_the_bit_under_accumulation(method: str) -> None:
    """Blocks that run twice a step, as BYOL's and DINO's do, are averaged once all the same."""
    assert_equal(outcomes(2)[0][Case(method, "fsdp2", 2, options=ONCE)], outcome(2, method, "ddp", 2))


@pytest.mark.parametrize(("method", "accumulation"), ALL)
def test_one_rank_of_fsdp2_equals_single_to_the_bit(method: str, accumulation: int) -> None:
    assert_equal(outcome(1, method, "fsdp2", accumulation), outcome(1, method, "single", accumulation))


@pytest.mark.parametrize("case", COMPILED, ids=identify)
def test_compiled_code_on_two_ranks_gives_what_the_same_strategy_gives_without(case: Case) -> None:
    """The gradients of its warming up reach no rank, and collectives are where they were."""
    assert_close(outcomes(2)[0][case], outcome(2, case.method, case.strategy, 1))


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
@pytest.mark.parametrize(("method", "accumulation"), ALL)
def test_ranks_agree_to_the_bit_though_their_seeds_differ(method: str, accumulation: int, strategy: str) -> None:
    first, second = (outcome(2, method, strategy, accumulation, rank) for rank in range(2))
    assert_equal(first, second)


@pytest.mark.parametrize("method", METHODS)
def test_training_moves_the_student(method: str) -> None:
    one, two = outcome(1, method, "single", 1), outcome(1, method, "single", 2)
    assert len(set(one.losses)) == 5
    assert any(not torch.equal(one.state[name], two.state[name]) for name in one.state)
