"""DINO's loss and center."""

from __future__ import annotations

import math

import pytest
import torch

from spt.losses.cross_view_entropy import Center, cross_view_entropy
from spt.schedules import EpochWarmup
from spt.types import Progress
from tests.waves import wave


def test_loss_and_center_equal_the_official_values_over_four_calls() -> None:
    """Traps 21 and 22: the center of a call is that of the calls before it."""
    student, teacher = wave((8, 6), 0.7).reshape(4, 2, 6), wave((4, 6), 1.3).reshape(2, 2, 6)  # four crops, two global
    center = Center(6, momentum=0.9).double()
    temperature = EpochWarmup(start=0.04, end=0.07, warmup_epochs=3)
    for epoch, expected in enumerate([9.6915848868, 9.6396926246, 9.5967585628, 9.6021601321]):
        targets = center(teacher, temperature(Progress(epoch, 4, 1)))
        assert cross_view_entropy(student, targets, temperature=0.1).item() == pytest.approx(expected, rel=2e-6)
        center.collect(teacher)
        center.update()
        if epoch == 0:
            official = [0.0027164, -0.00199232, -0.00378229, -0.00003119, 0.0037656, 0.00204578]
            assert center.center.tolist() == pytest.approx(official, abs=2e-8)


def test_loss_equals_the_loop_over_all_pairs_of_different_views() -> None:
    """Trap 23: a view never meets itself, and the mean is over V x S - V pairs."""
    student, targets = torch.randn(5, 3, 7), torch.randn(2, 3, 7).softmax(-1)
    terms = [
        -(targets[t] * (student[s] / 0.2).log_softmax(-1)).sum(-1).mean() for t in range(2) for s in range(5) if s != t
    ]
    assert len(terms) == 2 * 5 - 2
    assert torch.allclose(cross_view_entropy(student, targets, temperature=0.2), torch.stack(terms).mean())


def test_one_view_in_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two"):
        cross_view_entropy(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), temperature=0.1)


def test_uniform_logits_give_the_logarithm_of_the_number_of_prototypes() -> None:
    logits = torch.zeros(4, 2, 4096)
    assert cross_view_entropy(logits, logits[:2].softmax(-1), temperature=0.1).item() == pytest.approx(math.log(4096))


def test_loss_of_half_precision_logits_is_computed_in_float32() -> None:
    """Trap 28, at DINO's 65536 prototypes."""
    student, teacher = torch.randn(4, 2, 65536).clamp(-1, 1), torch.randn(2, 2, 65536).clamp(-1, 1)
    center = Center(65536, momentum=0.9)
    full = cross_view_entropy(student, center(teacher, 0.04), temperature=0.1)
    half = cross_view_entropy(student.bfloat16(), center(teacher.bfloat16(), 0.04), temperature=0.1)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(full.item(), abs=5e-3)


def test_center_moves_once_by_the_mean_over_all_micro_batches() -> None:
    """Trap 5."""
    logits = torch.randn(2, 6, 5)
    whole, parts = Center(5, momentum=0.9), Center(5, momentum=0.9)
    whole.collect(logits)
    for micro in logits.split(3, dim=1):
        parts.collect(micro)
    whole.update()
    parts.update()
    assert torch.allclose(whole.center, parts.center, atol=1e-7)
    assert torch.allclose(whole.center, 0.1 * logits.mean((0, 1)), atol=1e-7)


def test_nothing_of_a_finished_step_is_left_in_the_next() -> None:
    center = Center(3, momentum=0.0)
    for value in (1.0, 5.0):
        center.collect(torch.full((2, 4, 3), value))
        center.update()
    assert center.center.tolist() == [5.0, 5.0, 5.0]
