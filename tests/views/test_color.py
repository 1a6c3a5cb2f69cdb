from __future__ import annotations

import colorsys
from itertools import permutations

import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as tv

from spt.views.color import Jitter, grayscale, jitter, rotate_hue, solarize
from tests.views.recipes import random_bytes

B, HEIGHT, WIDTH = 24, 5, 7
IMAGES = random_bytes(B, 3, HEIGHT, WIDTH).float() / 255


def all_orders() -> tuple[Tensor, Tensor]:
    """The 24 orders of four operations: three of them permuted, and hue put in at each of four places."""
    pairs = [(order, place) for order in permutations(range(3)) for place in range(4)]
    return torch.tensor([order for order, _ in pairs]), torch.tensor([place for _, place in pairs])


def make_jitter() -> Jitter:
    draws = torch.rand(4, B, generator=torch.Generator().manual_seed(0))
    order, hue_place = all_orders()
    return Jitter(0.4 + draws[0], 0.4 + draws[1], 0.4 + draws[2], 0.4 * draws[3] - 0.2, order, hue_place)


def jitter_one(image: Tensor, how: Jitter, row: int) -> Tensor:
    operations = [
        lambda image: tv.adjust_brightness(image, how.brightness[row].item()),
        lambda image: tv.adjust_contrast(image, how.contrast[row].item()),
        lambda image: tv.adjust_saturation(image, how.saturation[row].item()),
    ]
    ordered = [operations[operation] for operation in how.order[row].tolist()]
    ordered.insert(int(how.hue_place[row]), lambda image: tv.adjust_hue(image, how.hue[row].item()))
    for operation in ordered:
        image = operation(image)
    return image


def test_jitter_equals_torchvisions_operations_in_each_images_own_order() -> None:
    """Trap 68."""
    how = make_jitter()
    jittered = jitter(IMAGES, how, "multiplicative")
    expected = torch.stack([jitter_one(image, how, row) for row, image in enumerate(IMAGES)])
    torch.testing.assert_close(jittered, expected, atol=2e-3, rtol=0)  # torchvision's luma has four digits


def test_jitter_of_strength_zero_changes_nothing() -> None:
    order, hue_place = all_orders()
    one, zero = torch.ones(B), torch.zeros(B)
    torch.testing.assert_close(jitter(IMAGES, Jitter(one, one, one, zero, order, hue_place), "multiplicative"), IMAGES)
    torch.testing.assert_close(jitter(IMAGES, Jitter(zero, one, one, zero, order, hue_place), "additive"), IMAGES)


@pytest.mark.parametrize(("mode", "expected"), [("multiplicative", 0.2 * 0.7), ("additive", 0.2 + 0.7)])
def test_brightness_scales_or_shifts_a_grey_image(mode: str, expected: float) -> None:
    """Trap 68."""
    order, hue_place = all_orders()
    one = torch.ones(B)
    gray = torch.full((B, 3, HEIGHT, WIDTH), 0.2)
    changed = jitter(gray, Jitter(0.7 * one, one, one, 0 * one, order, hue_place), mode)
    torch.testing.assert_close(changed, torch.full_like(gray, expected))


def test_each_operation_is_cut_to_colours_that_exist() -> None:
    """Trap 68."""
    one = torch.ones(1)
    halves = torch.tensor([0.4, 0.9]).expand(1, 3, HEIGHT, 2)
    how = Jitter(2 * one, 0.5 * one, one, 0 * one, torch.tensor([[0, 1, 2]]), torch.tensor([3]))
    # 0.8 and 1.8, cut to 1; then half way to their mean, 0.9. Cut at the end only, both would be 1
    expected = torch.tensor([0.85, 0.95]).expand_as(halves)
    torch.testing.assert_close(jitter(halves, how, "multiplicative"), expected)


def test_hue_turns_the_colour_circle() -> None:
    turns = torch.linspace(-0.5, 0.5, B)
    turned = rotate_hue(IMAGES, turns)
    for row in range(B):
        hue, saturation, value = colorsys.rgb_to_hsv(*IMAGES[row, :, 2, 3].tolist())
        expected = colorsys.hsv_to_rgb((hue + turns[row].item()) % 1, saturation, value)
        torch.testing.assert_close(turned[row, :, 2, 3], torch.tensor(expected), atol=1e-5, rtol=0)


def test_hue_leaves_grey_grey() -> None:
    gray = grayscale(IMAGES).expand(-1, 3, -1, -1)
    torch.testing.assert_close(rotate_hue(gray, torch.full((B,), 0.3)), gray)


def test_grayscale_is_pils() -> None:
    expected = torch.stack([tv.rgb_to_grayscale(image) for image in IMAGES])
    torch.testing.assert_close(grayscale(IMAGES), expected, atol=1e-3, rtol=0)


def test_solarize_inverts_from_128_of_255() -> None:
    """Trap 67."""
    values = torch.arange(256)
    expected = torch.where(values < 128, values, 255 - values) / 255
    torch.testing.assert_close(solarize(values / 255, 0.5), expected)
