"""The strategy fsdp2: what it divides, what it refuses, what it costs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.ranks import run_ranks
from tests.strategies.cases import Outcome
from tests.strategies.checks import disturbed_cases, four_ranks, one_rank, options_cases, two_ranks

Reports = list[dict[str, Any]]  # of every rank


@pytest.fixture(scope="module")
def one() -> Reports:
    return run_ranks(one_rank, 1)


@pytest.fixture(scope="module")
def two() -> Reports:
    return run_ranks(two_ranks, 2)


@pytest.fixture(scope="module")
def four() -> Reports:
    return run_ranks(four_ranks, 4)


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert not [name for name, value in ours.items() if not torch.equal(value, theirs[name])]


@pytest.mark.parametrize("name", [name for name in options_cases() if name != "base"])
def test_options_change_where_things_are_and_no_number(two: Reports, name: str) -> None:
    base, other = two[0]["options"]["base"], two[0]["options"][name]
    assert other.losses == base.losses
    assert_same(other.state, base.state)


@pytest.mark.parametrize("event", disturbed_cases())
def test_forwards_between_steps_leave_the_next_update_exact(two: Reports, event: str) -> None:
    """Traps 14 and 15: no root is left gathered, where it would hide the shards that the update writes."""
    base, other = two[0]["options"]["base"], two[0]["disturbed"][event]
    assert other.losses == base.losses
    assert_same(other.state, base.state)


def test_bytes_on_each_rank_are_half_of_ddps(two: Reports) -> None:
    ddp, fsdp2 = (two[0]["measured"][f"{strategy} bytes"] for strategy in ("ddp", "fsdp2"))
    assert set(ddp) == {"parameters", "gradients", "optimizer", "teacher"}
    other = two[1]["measured"]["fsdp2 bytes"]
    for part, whole in ddp.items():
        assert fsdp2[part] + other[part] == whole, part
        assert fsdp2[part] == pytest.approx(whole / 2, rel=0.1), part  # odd numbers of rows go to the first rank


def test_the_optimizer_holds_shards_of_the_student_and_nothing_of_the_teacher(two: Reports) -> None:
    """Traps 14 and 20."""
    found = two[0]["measured"]
    assert found["fsdp2 only shards"]
    assert not found["fsdp2 moves teacher"]
    assert not found["ddp moves teacher"]


def test_collectives_of_a_step_are_counted(two: Reports) -> None:
    """Three units a branch, one in BYOL's predictor; both views share student and teacher, the predictor runs twice."""
    counts = two[0]["measured"]["fsdp2 collectives"]
    names = {"all_gather": "_allgather_base_", "reduce_scatter": "_reduce_scatter_base_"}
    found = [
        {kind: sum(n for name, n in step.items() if key in name) for kind, key in names.items()} for step in counts
    ]
    # student: forwards and backwards 3 units; predictor: 2 x 1 and again; teacher: 3
    assert found == [{"all_gather": 3 + 3 + 2 + 2 + 3, "reduce_scatter": 3 + 1}] * 5


def test_fit_validate_fit_goes_on_and_divides_once(two: Reports) -> None:
    first, second = (rank["fits"] for rank in two)
    assert first["steps"] == 10
    assert any(not torch.equal(value, first["end"][name]) for name, value in first["middle"].items())
    assert_same(first["end"], second["end"])
    assert_same(first["middle"], two[0]["options"]["base"].state)


def test_the_first_rank_logs_one_block(two: Reports) -> None:
    first, second = (rank["fits"]["log"] for rank in two)
    assert second == []
    (block,) = first
    assert block.splitlines()[0] == "strategy fsdp2, 2 processes, mesh data_parallel 2"
    assert [line.split()[:3] for line in block.splitlines()[1:]] == [
        ["networks.student", "3", "units"],
        ["networks.teacher", "3", "units"],
    ]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_a_loss_that_is_not_finite_on_one_rank_stops_all(two: Reports, strategy: str) -> None:
    first, second = (rank["stopped"][strategy] for rank in two)
    assert "optimizer step 2" in first
    assert "on another device than this one" in first
    assert "global view 0" in second


def test_norms_of_weights_cut_in_two_dimensions_are_those_of_the_whole(four: Reports) -> None:
    for rank in four:
        assert rank["norms"]["cut"] == pytest.approx(rank["norms"]["whole"], rel=1e-5)


@pytest.mark.parametrize(("name", "method"), [("hybrid", "simclr"), ("tensor", "dino")])
def test_four_ranks_in_two_dimensions_equal_one_process(one: Reports, four: Reports, name: str, method: str) -> None:
    """Copies of shards; and ranks that share images, which nothing may count twice."""
    ours: Outcome = four[0][name]
    theirs: Outcome = one[0]["single"][method]
    assert ours.losses == pytest.approx(theirs.losses, rel=5e-6)
    for key, value in theirs.state.items():
        torch.testing.assert_close(ours.state[key], value, rtol=2e-5, atol=5e-6)
    assert_same(ours.state, four[3][name].state)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stray", ("method.logit_scale", "would not be averaged", "strategy=ddp")),
        ("nothing", ("nothing to shard", "parallelize_fn", "strategy=ddp")),
        ("misaligned", ("head.mlp.2.weight (6, 11)", "head.mlp.2.weight (7, 11)", "TeacherStudentWrapper")),
        ("teacher left out", ("backbone.network.cls_token", "parallelize_fn")),
        ("sizes", ("strategy.replicate_size=3", "number of processes, 1", "strategy.data_parallel_size=auto")),
        ("mesh", ("('dp',)", "mesh_dim_names=[data_parallel]")),
        ("float16", ("precision=16-true", "precision=bf16-mixed")),
    ],
)
def test_what_cannot_work_is_refused_with_names(one: Reports, name: str, words: tuple[str, ...]) -> None:
    for word in words:
        assert word in one[0]["refusals"][name]
