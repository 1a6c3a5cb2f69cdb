"""Groups and schedules of an optimizer recipe."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spt.optim.recipe import OptimizerRecipe
from spt.schedules import Cosine, WarmupCosine
from spt.types import Progress


def recipe(exempt: str = "bias_and_norm") -> OptimizerRecipe:
    return OptimizerRecipe(
        rules={"sgd": torch.optim.SGD},
        rule="sgd",
        lr=0.4,
        lr_schedule=WarmupCosine(start=0.0, peak=0.4, end=0.0, warmup_epochs=1, counting="from_zero"),
        weight_decay=0.04,
        weight_decay_schedule=Cosine(start=0.04, end=0.4, counting="from_zero"),
        exempt_from_decay=exempt,
        clip_norm=None,
        clip_unit="global",
    )


def network() -> nn.Module:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    net[2].weight.requires_grad_(False)
    return net


def test_every_trainable_parameter_is_in_one_group_and_frozen_ones_in_none() -> None:
    net = network()
    grouped = [id(p) for group in recipe().groups(net) for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in net.parameters() if p.requires_grad)


def test_biases_and_norms_have_neither_decay_nor_adaptation() -> None:
    decayed, exempt = recipe().groups(network())
    assert [tuple(p.shape) for p in decayed["params"]] == [(4, 3)]
    assert (exempt["weight_decay"], exempt["adapt"], len(exempt["params"])) == (0.0, False, 4)


def test_everything_decays_when_nothing_is_exempt() -> None:
    (decayed,) = recipe("nothing").groups(network())
    assert len(decayed["params"]) == 5


def test_schedules_reach_the_optimizer_and_decay_stays_off_the_exempt() -> None:
    optimizer = recipe().build(network())
    metrics = recipe().set_step(optimizer, Progress(10, 20, 4))
    assert metrics["train/weight_decay"] == pytest.approx(0.22)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [pytest.approx(0.22), 0.0]
    assert {group["lr"] for group in optimizer.param_groups} == {metrics["train/lr"]}
