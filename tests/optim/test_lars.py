"""LARS against golden vectors of both published forms."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spt.optim.lars import LARS
from tests.waves import wave

BYOL_P = [0.0993249893, 0.7825155123, 0.9915526911, 0.598401653, -0.1573290417, -0.8177673658]
BYOL_B = [0.0217636848, 0.2420142074]
SIMCLR_P = [0.0993744294, 0.7829550405, 0.9916440495, 0.5983461287, -0.1575056371, -0.8181311962]
SIMCLR_B = [0.0473709562, 0.3713751857]


@pytest.mark.parametrize(
    ("form", "weights", "biases"), [("lr_outside", BYOL_P, BYOL_B), ("lr_inside", SIMCLR_P, SIMCLR_B)]
)
def test_three_steps_equal_the_golden_vectors(form: str, weights: list[float], biases: list[float]) -> None:
    """Trap 59: where the learning rate stands, what is exempt, and decay inside the norm."""
    weight, bias = nn.Parameter(wave((3, 2), 0.8)), nn.Parameter(wave((2,), 0.2))
    groups = [{"params": [weight], "weight_decay": 0.01}, {"params": [bias], "weight_decay": 0.0, "adapt": False}]
    optimizer = LARS(groups, lr=0.0, momentum=0.9, trust_coefficient=0.001, momentum_form=form)
    for step, lr in enumerate([0.1, 0.2, 0.4]):
        for group in optimizer.param_groups:
            group["lr"] = lr
        weight.grad, bias.grad = 0.5 * wave((3, 2), 1.1 + step), 0.5 * wave((2,), 2.1 + step)
        optimizer.step()
    assert weight.flatten().tolist() == pytest.approx(weights, abs=2e-10)
    assert bias.tolist() == pytest.approx(biases, abs=2e-10)


def test_zero_weights_move_by_plain_momentum() -> None:
    """Trap 59: trust is 1 where a norm is 0."""
    weight = nn.Parameter(torch.zeros(2, 3))
    optimizer = LARS([weight], lr=0.5, momentum=0.9, trust_coefficient=0.001, momentum_form="lr_outside")
    weight.grad = torch.ones(2, 3)
    optimizer.step()
    assert torch.equal(weight.detach(), torch.full((2, 3), -0.5))


def test_adaptation_does_not_depend_on_decay() -> None:
    """Trap 59: a decay of 0 still scales the step to the weights."""
    weight = nn.Parameter(torch.tensor([[3.0, 4.0]]))
    optimizer = LARS(
        [weight], lr=1.0, momentum=0.0, trust_coefficient=0.1, momentum_form="lr_outside", weight_decay=0.0
    )
    weight.grad = torch.tensor([[100.0, 0.0]])
    optimizer.step()
    assert weight.tolist() == [[pytest.approx(3.0 - 0.5), 4.0]]
