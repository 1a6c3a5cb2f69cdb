"""SimCLR's loss. What needs several processes is tested with the strategies."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from spt.losses.nt_xent import nt_xent
from tests.waves import wave


@pytest.mark.parametrize(("temperature", "expected"), [(0.1, 4.7882703088), (0.5, 1.3114833919 + 1.3276166899)])
def test_loss_equals_the_official_sum_of_both_directions(temperature: float, expected: float) -> None:
    """Trap 33: a sum of two means."""
    first, second = wave((4, 8), 0.37), wave((4, 8), 0.41)
    assert nt_xent(first, second, temperature=temperature).item() == pytest.approx(expected, rel=2e-6)


def test_loss_equals_the_loop_over_images() -> None:
    """Trap 34: a view is never its own negative, and all 2 (B - 1) views of other images are."""
    first, second = torch.randn(3, 5), torch.randn(3, 5)
    rows = F.normalize(torch.cat([first, second]), dim=-1)
    terms = []
    for row in range(6):
        partner = (row + 3) % 6
        similarities = {other: float(rows[row] @ rows[other]) / 0.2 for other in range(6) if other != row}
        terms.append(math.log(sum(map(math.exp, similarities.values()))) - similarities[partner])
    assert nt_xent(first, second, temperature=0.2).item() == pytest.approx(2 * sum(terms) / 6, rel=1e-5)


def test_high_temperature_gives_twice_the_logarithm_of_the_number_of_choices() -> None:
    assert nt_xent(torch.randn(9, 4), torch.randn(9, 4), temperature=1e6).item() == pytest.approx(
        2 * math.log(17), rel=1e-4
    )


def test_loss_under_autocast_is_computed_in_float32() -> None:
    """Trap 28."""
    first, second = torch.randn(6, 64), torch.randn(6, 64)
    full = nt_xent(first, second, temperature=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = nt_xent(first, second, temperature=0.1)
    assert mixed.dtype == torch.float32
    assert mixed.item() == pytest.approx(full.item(), rel=1e-6)


def test_similarities_that_overflow_half_precision_stay_finite() -> None:
    """Trap 34: no 1e9 that turns into infinity."""
    rows = torch.ones(4, 8, dtype=torch.float16)
    assert torch.isfinite(nt_xent(rows, rows, temperature=1e-3))


def test_a_row_of_zeros_gives_a_finite_loss_and_gradient() -> None:
    first = torch.zeros(3, 4, requires_grad=True)
    nt_xent(first, torch.randn(3, 4), temperature=0.1).backward()
    assert torch.isfinite(first.grad).all()
