"""A loss that is not finite ends the run before it can spoil a weight, and is traced to where it came from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from lightning import Callback
from torch import Tensor, nn

from spt.finite import NonFiniteLossError, first_bad_tensor
from spt.run import Run
from spt.testing import LATER_STEP
from spt.types import Batch
from tests.methods.batches import batch
from tests.methods.test_dino import dino
from tests.runs import build, fit


class BeforeStep(Callback):
    """The parameters as they were at the start of the latest step."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.parameters: dict[str, Tensor] = {}

    def on_train_batch_start(self, *_: object) -> None:
        named = self.run.module.method.named_parameters()
        self.parameters = {name: parameter.detach().clone() for name, parameter in named}


class Poison:
    """A forward hook that makes outputs NaN from some optimizer step on."""

    def __init__(self, run: Run, step: int) -> None:
        self.module, self.step = run.module, step

    def __call__(self, module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        return output * float("nan") if self.module.progress.step >= self.step else output


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_loss_that_is_not_finite_leaves_all_weights_as_they_were(tmp_path: Path, accumulation: int) -> None:
    """Trap 63: teacher and optimizer too; the message names the step and the first bad tensor."""
    run = build("dino", tmp_path, f"trainer.accumulate_grad_batches={accumulation}", "probes=none")
    run.module.method.networks.student.get_submodule("head.mlp.2").register_forward_hook(Poison(run, 2))
    before = BeforeStep(run)
    with pytest.raises(NonFiniteLossError) as error:
        fit(run, before)
    assert "optimizer step 2 is nan" in str(error.value)
    assert "the output of networks.student.head.mlp.2 (Linear)" in str(error.value)
    assert "optimizer.lr" in str(error.value)
    assert run.trainer.global_step == 2
    for name, parameter in run.module.method.named_parameters():
        assert torch.equal(parameter, before.parameters[name]), name


def test_a_run_that_diverges_is_failed_in_its_summary(tmp_path: Path) -> None:
    run = build("ijepa", tmp_path, "optimizer.lr=1e30", "probes=none")
    with pytest.raises(NonFiniteLossError, match="optimizer step 1"):
        run.fit()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["status"], summary["steps"]) == ("failed", 1)
    assert summary["error"].startswith("NonFiniteLossError: The loss of optimizer step 1")


def culprit(views: Batch, *, weight: str | None = None, module: str | None = None) -> str:
    """What is named when these are not finite."""
    method = dino()
    with torch.no_grad():
        if weight is not None:
            method.get_parameter(weight).flatten()[3] = float("inf")
        if module is not None:
            method.get_submodule(module).register_forward_hook(lambda m, inputs, output: output * float("nan"))
        return first_bad_tensor(method, views, LATER_STEP)


def test_the_first_bad_tensor_is_named_in_the_order_of_a_step() -> None:
    """Views, then weights, then outputs; and what came later is not blamed."""
    bad_view = batch(2, 1)
    bad_view.local_views[0][1, 2, 3, 4] = float("nan")
    weight, module = "networks.student.head.mlp.0.weight", "networks.student.head.mlp.2"
    assert culprit(bad_view, weight=weight, module=module) == "local view 0"
    assert culprit(batch(2, 1), weight=weight, module=module) == weight
    assert culprit(batch(2, 1), module=module) == f"the output of {module} (Linear)"
    assert culprit(batch(2, 1)) == "the loss itself: every module's output is finite"


def test_looking_for_a_bad_tensor_leaves_no_hook_behind() -> None:
    method = dino()
    first_bad_tensor(method, batch(2, 1), LATER_STEP)
    assert not any(module._forward_hooks for module in method.modules())
