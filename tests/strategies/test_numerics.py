"""Clipping, trust ratios, decay groups and precision on shards."""

from __future__ import annotations

import pytest
import torch

from spt.strategies.precision import NumberFormats
from tests.ranks import once, run_ranks
from tests.strategies.cases import METHODS, Case, Outcome, identify, train_all

CLIPPED = [Case("dino", "", clip_unit="tensor"), Case("ijepa", "", clip_unit="global")]
LARS = [Case("byol", "", rule="lars"), Case("simclr", "", rule="lars")]
ADAMW = Case("ijepa", "", rule="adamw")
HALF = [*(Case(method, "", precision="bf16-mixed") for method in METHODS), Case("simclr", "", precision="bf16-true")]
LOCAL = Case("byol", "", batch_norm="local")
LOCAL_HALF = Case("byol", "", batch_norm="local", precision="bf16-mixed")


def under(strategy: str, case: Case) -> Case:
    return Case(**{**vars(case), "strategy": strategy})


@once
def outcomes(num_ranks: int) -> list[dict[Case, Outcome]]:
    strategies = ("single",) if num_ranks == 1 else ("ddp", "fsdp2")
    cases = [*CLIPPED, *LARS, ADAMW, *HALF, LOCAL, LOCAL_HALF]
    return run_ranks(train_all, num_ranks, [under(strategy, case) for case in cases for strategy in strategies])


def assert_close(ours: Outcome, theirs: Outcome) -> None:
    assert ours.losses == pytest.approx(theirs.losses, rel=1e-5)
    for name, value in theirs.state.items():
        torch.testing.assert_close(
            ours.state[name], value, rtol=1e-4, atol=2e-5, msg=lambda text, n=name: f"{n}: {text}"
        )


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
@pytest.mark.parametrize("case", [*CLIPPED, *LARS], ids=identify)
def test_clipping_and_trust_ratios_are_those_of_whole_tensors(case: Case, strategy: str) -> None:
    """Traps 50 and 52: norms of shards are shorter, and only whole shapes tell biases from matrices."""
    assert_close(outcomes(2)[0][under(strategy, case)], outcomes(1)[0][under("single", case)])


def test_adamw_on_shards_equals_ddp_to_the_bit() -> None:
    ours, theirs = (outcomes(2)[0][under(strategy, ADAMW)] for strategy in ("fsdp2", "ddp"))
    assert ours.losses == theirs.losses
    assert all(torch.equal(value, theirs.state[name]) for name, value in ours.state.items())


@pytest.mark.parametrize("strategy", ["single", "ddp", "fsdp2"])
@pytest.mark.parametrize("case", HALF, ids=identify)
def test_every_method_trains_in_bfloat16(case: Case, strategy: str) -> None:
    ours = outcomes(1 if strategy == "single" else 2)[0][under(strategy, case)]
    (exact,) = (outcomes(1)[0][under("single", other)] for other in [*CLIPPED, *LARS] if other.method == case.method)
    assert ours.losses[0] == pytest.approx(exact.losses[0], rel=0.05)
    assert ours.losses[0] != exact.losses[0]
    assert len(set(ours.losses)) == 5
    kept = torch.bfloat16 if case.precision == "bf16-true" else torch.float32
    assert {value.dtype for name, value in ours.state.items() if name.endswith("weight")} == {kept}


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
@pytest.mark.parametrize("case", [LOCAL, LOCAL_HALF], ids=identify)
def test_local_batch_norm_trains_with_several_forwards_a_step(case: Case, strategy: str) -> None:
    """Trap 49: no buffer is written over between the forwards of a step, and each rank keeps its own statistics."""
    first, second = (ranks[under(strategy, case)].state for ranks in outcomes(2))
    for name, value in first.items():
        assert torch.isfinite(value).all()
        assert torch.equal(value, second[name]) != name.endswith(("running_mean", "running_var")), name


@pytest.mark.parametrize("key", ["param_dtype", "reduce_dtype"])
def test_formats_that_need_loss_scaling_are_refused(key: str) -> None:
    formats = {"param_dtype": None, "reduce_dtype": None, "cast_forward_inputs": True}
    with pytest.raises(ValueError, match=f"strategy.mp_policy.{key}=bfloat16"):
        NumberFormats(**{**formats, key: "float16"})
