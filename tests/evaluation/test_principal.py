from __future__ import annotations

import pytest
import torch

from spt.evaluation.principal import principal_components

# 12 rows, 5 dimensions


def rows() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(12, 5, generator=generator) * torch.tensor([1.0, 5.0, 0.5, 3.0, 2.0]) + 7.0


def test_components_are_those_of_the_singular_values() -> None:
    centred = rows().double() - rows().double().mean(0)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    found = principal_components(rows(), 3)
    torch.testing.assert_close(found.coordinates.abs(), (u * s)[:, :3].abs())
    torch.testing.assert_close(found.shares, (s.square() / s.square().sum())[:3])


def test_signs_do_not_depend_on_the_order_of_the_rows() -> None:
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        principal_components(rows()[order], 4).coordinates, principal_components(rows(), 4).coordinates[order]
    )


def test_nothing_is_drawn_at_random() -> None:
    before = torch.get_rng_state()
    principal_components(rows(), 2)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("given", [torch.ones(4, 3), torch.ones(1, 3), torch.rand(4, 1)])
def test_components_that_are_not_there_are_zero(given: torch.Tensor) -> None:
    found = principal_components(given, 2)
    assert found.coordinates.shape == (len(given), 2)
    assert torch.isfinite(found.shares).all()
    assert found.coordinates[:, 1].abs().max() < 1e-12
