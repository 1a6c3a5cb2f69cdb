from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from spt.config.errors import ConfigError
from spt.views.draws import uniform
from spt.views.view import COLOR_DRAWS, View, flip
from tests.views.recipes import CROP_ONLY, EVERYTHING, random_bytes

N, SIZE = 3000, 4


def recolor(view: View, crops: Tensor) -> Tensor:
    indices = torch.arange(len(crops))
    return changed_by(view, crops, uniform(0, 1, torch.zeros_like(indices), indices, COLOR_DRAWS))


def changed_by(view: View, crops: Tensor, draws: Tensor) -> Tensor:
    changes = view.changes(draws, crops.shape[-1])
    return view.recolor(flip(crops.clone(), changes.is_flipped), changes)


@pytest.mark.parametrize("operation", ["flip", "jitter", "gray", "blur", "solarize"])
@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1.0])
def test_operations_happen_as_often_as_asked(operation: str, probability: float) -> None:
    """Trap 65."""
    view = replace(CROP_ONLY, blur_sigma=[1.0, 2.0], blur_reference_size=SIZE, **{operation: probability})
    crops = (random_bytes(1, 3, SIZE, SIZE).float() / 255).expand(N, -1, -1, -1)
    changed = ((recolor(view, crops) - crops).abs() > 1e-5).flatten(1).any(dim=1)
    deviation = (probability * (1 - probability) / N) ** 0.5
    assert abs(changed.float().mean() - probability) <= 3 * deviation


def test_strength_zero_leaves_all_views_the_same_colours() -> None:
    """Trap 69."""
    view = replace(CROP_ONLY, jitter=1.0, brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0)
    crops = random_bytes(6, 3, SIZE, SIZE).float() / 255
    torch.testing.assert_close(recolor(view, crops), crops)


def test_images_of_a_batch_are_changed_differently() -> None:
    """Trap 70."""
    crops = (random_bytes(1, 3, SIZE, SIZE).float() / 255).expand(40, -1, -1, -1)
    assert len({tuple(image.flatten().tolist()) for image in recolor(EVERYTHING, crops)}) > 35


def test_jitter_factors_are_uniform_in_their_ranges() -> None:
    view = replace(CROP_ONLY, jitter=1.0, contrast=0.0, saturation=0.0, hue=0.0, brightness=0.4)
    means = recolor(view, torch.full((N, 3, SIZE, SIZE), 0.5)).mean(dim=(1, 2, 3)) / 0.5
    assert 0.6 <= means.min() < 0.61
    assert 1.39 < means.max() <= 1.4 + 1e-6
    assert abs(means.mean() - 1) < 0.02


def test_strength_above_one_never_makes_a_factor_negative() -> None:
    view = replace(CROP_ONLY, jitter=1.0, contrast=1.6, brightness=0.0, saturation=0.0, hue=0.0)
    ramp = torch.linspace(0.3, 0.7, SIZE).expand(N, 3, SIZE, SIZE)
    jittered = recolor(view, ramp)
    assert bool((jittered[..., -1] >= jittered[..., 0] - 1e-6).all())


def test_blur_is_in_proportion_to_the_crop() -> None:
    view = replace(CROP_ONLY, blur=1.0, blur_sigma=[4.0, 4.0], blur_reference_size=224)
    size = 56
    point = torch.zeros(1, 3, size, size)
    point[..., size // 2, size // 2] = 1
    profile = recolor(view, point)[0, 0].sum(dim=0)
    variance = (profile * (torch.arange(size) - size // 2) ** 2).sum()
    assert abs(variance.sqrt() - 1.0) < 1e-3  # 4 pixels of 224 are 1 of 56


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flip", 1.5),
        ("crop_scale", [0.5, 0.2]),
        ("crop_scale", [0.5, 1.2]),
        ("crop_ratio", [0.0, 1.0]),
        ("interpolation", "lanczos"),
        ("brightness_mode", "subtractive"),
        ("hue", 0.6),
    ],
)
def test_values_that_mean_nothing_are_refused(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=key):
        replace(CROP_ONLY, **{key: value})


def test_an_image_changes_alike_alone_and_in_a_batch() -> None:
    crops = torch.rand(9, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(5))
    indices = torch.arange(9)
    draws = uniform(0, 1, torch.zeros_like(indices), indices, COLOR_DRAWS)
    together = changed_by(EVERYTHING, crops, draws)
    alone = [changed_by(EVERYTHING, crops[row : row + 1], draws[row : row + 1]) for row in range(9)]
    torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-6)
