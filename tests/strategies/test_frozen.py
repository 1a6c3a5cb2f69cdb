"""Heads that train alone at first, under every strategy that can."""

from __future__ import annotations

import pytest
import torch

from tests.ranks import once, run_ranks
from tests.strategies.cases import METHODS, STEPS, Case, Outcome, build_method, train_all

STRATEGIES = ("ddp", "fsdp2")
PART = 2  # steps


@once
def outcomes(num_ranks: int) -> dict[Case, Outcome]:
    """Of every method, frozen for two steps and for the whole run, on the first rank."""
    strategies = ("single",) if num_ranks == 1 else STRATEGIES
    cases = [
        Case(method, name, rule="adamw", freeze_steps=steps)
        for method in METHODS
        for name in strategies
        for steps in (PART, STEPS)
    ]
    return run_ranks(train_all, num_ranks, cases)[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("strategy", ["single", *STRATEGIES])
def test_a_frozen_backbone_stays_to_the_bit_and_heads_move(method: str, strategy: str) -> None:
    """Weight decay, moments and the teacher's average included."""
    state = outcomes(1 if strategy == "single" else 2)[Case(method, strategy, rule="adamw", freeze_steps=STEPS)].state
    torch.manual_seed(0)  # as the first rank
    initial = build_method(method)
    frozen = {name: value for name, value in initial.state_dict().items() if ".network." in name}
    assert len(frozen) > 20
    assert not [name for name, value in frozen.items() if not torch.equal(value, state[name])]
    heads = {name: value for name, value in initial.named_parameters() if value.requires_grad and name not in frozen}
    assert heads
    assert not [name for name, value in heads.items() if torch.equal(value, state[name])]


@pytest.mark.parametrize("method", METHODS)
def test_two_ranks_freeze_as_one_process_does(method: str) -> None:
    theirs = outcomes(1)[Case(method, "single", rule="adamw", freeze_steps=PART)]
    ours = {name: outcomes(2)[Case(method, name, rule="adamw", freeze_steps=PART)] for name in STRATEGIES}
    assert ours["ddp"].losses == ours["fsdp2"].losses
    assert ours["ddp"].losses == pytest.approx(theirs.losses, rel=1e-4)
    frozen = outcomes(1)[Case(method, "single", rule="adamw", freeze_steps=STEPS)]
    assert theirs.losses[: PART + 1] == frozen.losses[: PART + 1]
    assert theirs.losses[PART + 1] != frozen.losses[PART + 1]
