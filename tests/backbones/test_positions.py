"""Position embeddings."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from spt.backbones.positions import resample_positions, sincos_positions


def test_sincos_equals_the_official_vectors_column_first() -> None:
    """Trap 77."""
    grid = sincos_positions(8, 3, 3)
    assert grid[1].tolist() == pytest.approx([0.84147098, 0.00999983, 0.54030231, 0.99995, 0, 0, 1, 1], abs=1e-7)
    assert grid[3].tolist() == pytest.approx([0, 0, 1, 1, 0.84147098, 0.00999983, 0.54030231, 0.99995], abs=1e-7)


def test_positions_of_a_grid_that_is_not_square_are_in_raster_order() -> None:
    grid = sincos_positions(8, 2, 3)
    assert grid.shape == (6, 8)
    assert torch.equal(grid[1], sincos_positions(8, 3, 3)[1])
    assert torch.equal(grid[3], sincos_positions(8, 3, 3)[3])


def test_a_width_that_four_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        sincos_positions(6, 2, 2)


def test_the_same_grid_is_not_touched() -> None:
    """Trap 76."""
    positions = torch.randn(1, 12, 5)
    assert resample_positions(positions, (3, 4), (3, 4)) is positions


@pytest.mark.parametrize("new", [(2, 2), (6, 8), (5, 2)])
def test_resampling_gives_the_new_grid_and_keeps_constants(new: tuple[int, int]) -> None:
    """Trap 76."""
    resampled = resample_positions(torch.full((1, 12, 5), 0.7), (3, 4), new)
    assert resampled.shape == (1, new[0] * new[1], 5)
    assert torch.allclose(resampled, torch.full_like(resampled, 0.7), atol=1e-6)


@pytest.mark.parametrize("new", [(2, 2), (6, 8), (5, 2)])
def test_resampling_is_torchs_bicubic_one_with_its_gradient(new: tuple[int, int]) -> None:
    positions = torch.randn(1, 12, 5, requires_grad=True)
    grid = positions.detach().unflatten(1, (3, 4)).permute(0, 3, 1, 2).requires_grad_()
    expected = F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    weights = torch.randn(expected.shape)
    (expected * weights).sum().backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        resampled = resample_positions(positions, (3, 4), new)
    (resampled * weights.flatten(2).transpose(1, 2)).sum().backward()
    assert torch.allclose(resampled, expected.flatten(2).transpose(1, 2), atol=1e-6)
    assert torch.allclose(positions.grad, grid.grad.flatten(2).transpose(1, 2), atol=1e-5)


def test_resampling_does_not_swap_rows_and_columns() -> None:
    rows = torch.arange(3.0).repeat_interleave(4).reshape(1, 12, 1)
    resampled = resample_positions(rows, (3, 4), (6, 8)).reshape(6, 8)
    assert torch.allclose(resampled, resampled[:, :1].expand(6, 8), atol=1e-6)
    assert (resampled[1:, 0] > resampled[:-1, 0]).all()
