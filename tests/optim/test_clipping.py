"""Gradient clipping."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spt.optim.clipping import clip_gradients


def parameters() -> list[nn.Parameter]:
    given = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3, 1)), nn.Parameter(torch.zeros(4))]
    given[0].grad, given[1].grad = torch.tensor([3.0, 4.0]), torch.tensor([[0.6], [0.0], [0.8]])
    return given  # norms 5 and 1, the last without gradient


def test_tensors_are_clipped_each_by_its_own_norm() -> None:
    """Trap 64."""
    given = parameters()
    clip_gradients(given, max_norm=2.0, unit="tensor")
    assert given[0].grad.norm().item() == pytest.approx(2.0, rel=1e-5)
    assert given[1].grad.norm().item() == 1.0


def test_global_clipping_equals_torchs() -> None:
    """Trap 64."""
    ours, theirs = parameters(), parameters()
    clip_gradients(ours, max_norm=2.0, unit="global")
    nn.utils.clip_grad_norm_(theirs, 2.0)
    for mine, other in zip(ours[:2], theirs[:2], strict=True):
        assert torch.equal(mine.grad, other.grad)


@pytest.mark.parametrize("max_norm", [None, 100.0])
def test_small_gradients_are_left_alone_and_the_norm_is_given(max_norm: float | None) -> None:
    given = parameters()
    total = clip_gradients(given, max_norm=max_norm, unit="global")
    assert total.item() == pytest.approx(26**0.5)
    assert given[0].grad.tolist() == [3.0, 4.0]


def test_no_gradients_at_all_have_norm_zero() -> None:
    assert clip_gradients([nn.Parameter(torch.zeros(2))], max_norm=1.0, unit="tensor").item() == 0.0
