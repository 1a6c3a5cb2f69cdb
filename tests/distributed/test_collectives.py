"""Collectives and sharded tensors on two ranks against one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.distributed.checks import everything
from tests.ranks import run_ranks

Reports = list[dict[str, Any]]  # of every rank


@pytest.fixture(scope="module")
def one() -> Reports:
    return run_ranks(everything, 1)


@pytest.fixture(scope="module")
def two() -> Reports:
    return run_ranks(everything, 2)


@pytest.mark.parametrize(
    "name",
    ["vectors", "maps", "without affine", "frozen shift", "plain mean of batches", "without running statistics"],
)
def test_global_batch_norm_on_two_ranks_equals_torchs_on_the_whole_batch(one: Reports, two: Reports, name: str) -> None:
    """Trap 44: outputs, gradients through the shared statistics, running statistics; large means do not cancel."""
    whole = one[0]["batch_norm"][name]
    halves = [rank["batch_norm"][name] for rank in two]
    assert halves[0].keys() == whole.keys()
    for key, value in whole.items():
        ours = torch.cat([half[key] for half in halves]) if key in ("output", "gradient") else halves[0][key]
        torch.testing.assert_close(ours, value, rtol=1e-5, atol=3e-6, msg=lambda text, k=key: f"{k}: {text}")


def test_batch_norm_keeps_what_is_frozen(one: Reports, two: Reports) -> None:
    assert "gradient of 0.bias" not in two[0]["batch_norm"]["frozen shift"]
    assert "gradient of 0.weight" in two[0]["batch_norm"]["frozen shift"]


def test_contrastive_loss_on_two_ranks_equals_one_process(one: Reports, two: Reports) -> None:
    """Traps 34, 42, 43 and 45.

    With L = (L_0 + L_1) / 2 the loss of one process, a strategy gives each rank the mean of both ranks' gradients.
    The gathers' backward hands each rank dL_0 + dL_1 with respect to its own rows, and half of that is dL.
    """
    whole, halves = one[0]["contrastive"], [rank["contrastive"] for rank in two]
    torch.testing.assert_close(halves[0]["loss"], whole["loss"])
    gradient = torch.cat([half["gradient"] for half in halves])
    torch.testing.assert_close(gradient, whole["gradient"], rtol=1e-6, atol=1e-6)


def test_gradients_through_gathered_rows_are_those_of_finite_differences(two: Reports) -> None:
    """Trap 42."""
    slopes = two[0]["slopes"]
    assert slopes["autograd"] == pytest.approx(slopes["differences"], rel=1e-6)


def test_norms_are_of_whole_tensors_on_every_rank(two: Reports) -> None:
    """Trap 50, with rows that do not divide evenly."""
    for rank in two:
        assert rank["norms"]["placed"] == pytest.approx(rank["norms"]["whole"], rel=1e-6)
    assert two[0]["norms"]["placed"] == two[1]["norms"]["placed"]
    assert two[0]["norms"]["coarse"] == pytest.approx(two[0]["norms"]["coarse, exact"], rel=1e-6)


def test_a_teacher_of_odd_rows_moves_as_a_whole_one(two: Reports) -> None:
    """Trap 15."""
    for rank in two:
        assert torch.equal(rank["teacher"]["sharded"], rank["teacher"]["whole"])


def test_ranks_agree_after_small_collectives(two: Reports) -> None:
    first, second = (rank["agreements"] for rank in two)
    for found in (first, second):
        assert found["metrics"] == {"a": 1.5, "b": 0.5, "c": float("inf")}
        assert found["smallest"] == 6
        assert found["smallest_over_hosts"] == [6, 4, 3]
        assert found["any"] == (True, False)
        assert found["running_mean"] == [1.5, 1.5, 1.5]
    assert torch.equal(first["weight"], second["weight"])
