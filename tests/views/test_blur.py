from __future__ import annotations

import torch

from spt.views.blur import gaussian_blur
from tests.views.recipes import random_bytes

SIZE = 33


def test_variance_of_a_blurred_point_is_sigma_squared() -> None:
    """Trap 66."""
    sigmas = torch.tensor([0.8, 1.3, 2.0])
    points = torch.zeros(3, 1, SIZE, SIZE)
    points[..., SIZE // 2, SIZE // 2] = 1
    blurred = gaussian_blur(points, sigmas)
    offsets = (torch.arange(SIZE) - SIZE // 2).float()
    torch.testing.assert_close(blurred.sum(dim=(1, 2, 3)), torch.ones(3))
    for axis in (2, 3):
        profile = blurred.sum(dim=(1, 5 - axis))  # [3, SIZE]
        torch.testing.assert_close((profile * offsets**2).sum(dim=1), sigmas**2, rtol=1e-3, atol=0)


def test_sigma_zero_changes_nothing() -> None:
    images = random_bytes(2, 3, 7, 7).float() / 255
    assert torch.equal(gaussian_blur(images, torch.zeros(2)), images)


def test_blur_keeps_a_flat_image_up_to_the_edge() -> None:
    flat = torch.full((2, 3, 6, 6), 0.4)
    torch.testing.assert_close(gaussian_blur(flat, torch.tensor([0.5, 2.0])), flat)
