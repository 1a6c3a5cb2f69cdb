"""BYOL's and I-JEPA's losses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from spt.losses.regression import normalized_distance, token_regression
from tests.waves import wave


def test_byol_loss_equals_the_official_value_summed_over_directions() -> None:
    """Trap 29."""
    first, second, target_1, target_2 = (wave((3, 4), frequency) for frequency in (0.3, 0.5, 0.9, 1.1))
    loss = normalized_distance(first, target_2) + normalized_distance(second, target_1)
    assert loss.item() == pytest.approx(3.9960983608, rel=1e-6)


@pytest.mark.parametrize(("target", "expected"), [([2.0, 0.0], 0.0), ([0.0, 3.0], 2.0), ([-1.0, 0.0], 4.0)])
def test_distance_is_zero_two_and_four_for_equal_orthogonal_and_opposite(target: list[float], expected: float) -> None:
    """Trap 29."""
    assert normalized_distance(torch.tensor([[5.0, 0.0]]), torch.tensor([target])).item() == pytest.approx(expected)


def test_distance_of_half_precision_zeros_is_finite() -> None:
    """Trap 28."""
    assert torch.isfinite(normalized_distance(torch.zeros(2, 3).half(), torch.ones(2, 3).half()))


def test_ijepa_loss_equals_the_official_smooth_l1_and_not_the_mean_square() -> None:
    """Trap 36."""
    predictions = 2 * wave((2, 3, 4), 0.6)
    targets = F.layer_norm(3 * wave((2, 3, 4), 1.7), (4,))
    assert token_regression(predictions[None], targets[None]).item() == pytest.approx(0.9443808035, rel=1e-6)
    assert F.mse_loss(predictions, targets).item() == pytest.approx(2.8243942776, rel=1e-6)
