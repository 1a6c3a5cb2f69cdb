"""The same operations and the same distributions as torchvision's transforms and PIL's."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from PIL import Image, ImageOps
from scipy.stats import chisquare, ks_2samp
from torch import Tensor
from torchvision.transforms import ColorJitter, GaussianBlur
from torchvision.transforms.v2 import functional as tv

from spt.views.blur import gaussian_blur
from spt.views.color import UNTOUCHED, Jitter, grayscale, jitter, solarize
from spt.views.draws import uniform
from spt.views.resample import resize_weights
from spt.views.view import COLOR_DRAWS, Changes, flip
from tests.views.recipes import CROP_ONLY, random_bytes

B, HEIGHT, WIDTH = 6, 9, 11
COUNT = 2000
BYTES = random_bytes(B, 3, HEIGHT, WIDTH)
IMAGES = BYTES.float() / 255
RECIPE = replace(CROP_ONLY, flip=0.5, jitter=1.0, brightness=0.8, contrast=0.6, saturation=0.4, hue=0.2, blur=1.0)


def drawn(view: object = RECIPE, size: int = 224) -> Changes:
    indices = torch.arange(COUNT)
    return view.changes(uniform(5, 1, torch.zeros_like(indices), indices, COLOR_DRAWS), size)


def only(operation: str, strengths: Tensor) -> Tensor:
    """Images after one of the four operations alone."""
    one, zero = torch.ones(B), torch.zeros(B)
    values = {"brightness": one, "contrast": one, "saturation": one, "hue": zero, operation: strengths}
    order = torch.tensor([0, 1, 2]).expand(B, 3)
    return jitter(IMAGES, Jitter(**values, order=order, hue_place=torch.arange(B) % 4), "multiplicative")


@pytest.mark.parametrize(
    ("operation", "tolerance"),
    # torchvision's weights of the channels have four digits, and its hue goes through HSV
    [("brightness", 1e-6), ("contrast", 2e-4), ("saturation", 2e-4), ("hue", 1e-5)],
)
def test_each_operation_is_torchvisions(operation: str, tolerance: float) -> None:
    strengths = torch.linspace(-0.5, 0.5, B) if operation == "hue" else torch.linspace(0.0, 1.8, B)
    theirs = getattr(tv, f"adjust_{operation}")
    expected = torch.stack([theirs(image, strengths[row].item()) for row, image in enumerate(IMAGES)])
    torch.testing.assert_close(only(operation, strengths), expected, atol=tolerance, rtol=0)


def test_flip_is_torchvisions() -> None:
    is_flipped = torch.arange(B) % 2 == 0
    expected = torch.where(is_flipped[:, None, None, None], tv.hflip(IMAGES), IMAGES)
    assert torch.equal(flip(IMAGES.clone(), is_flipped), expected)


def test_flip_of_a_crop_is_the_crop_from_right_to_left() -> None:
    starts, lengths = torch.tensor([0, 3, 5]), torch.tensor([11, 4, 6])
    sizes = {"in_size": 11, "out_size": 7, "interpolation": "bicubic"}
    plain = resize_weights(starts, lengths, **sizes)
    mirrored = resize_weights(starts, lengths, **sizes, mirrored=torch.tensor([True, False, True]))
    assert torch.equal(mirrored, torch.stack((plain[0].flip(0), plain[1], plain[2].flip(0))))


def test_solarize_is_pils() -> None:
    expected = [tv.pil_to_tensor(ImageOps.solarize(Image.fromarray(image.permute(1, 2, 0).numpy()))) for image in BYTES]
    torch.testing.assert_close(solarize(IMAGES, 0.5), torch.stack(expected) / 255)


def test_grayscale_is_pils_before_rounding() -> None:
    expected = [tv.pil_to_tensor(Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L")) for image in BYTES]
    torch.testing.assert_close(grayscale(IMAGES), torch.stack(expected) / 255, atol=0.51 / 255, rtol=0)


@pytest.mark.parametrize("size", [33, 150])
def test_blur_is_torchvisions_away_from_the_edge(size: int) -> None:
    """Theirs reflects at the edge; ours gives what lies beyond no weight."""
    images = random_bytes(3, 3, size, size).float() / 255
    sigmas = torch.tensor([0.3, 1.1, 2.0])
    blurred = gaussian_blur(images, sigmas)
    inside = slice(12, size - 12)
    for row, sigma in enumerate(sigmas.tolist()):
        expected = tv.gaussian_blur(images[row], [25, 25], [sigma, sigma])[:, inside, inside]
        torch.testing.assert_close(blurred[row, :, inside, inside], expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
def test_strengths_of_jitter_are_distributed_as_torchvisions(name: str) -> None:
    torch.manual_seed(0)
    theirs = ColorJitter(RECIPE.brightness, RECIPE.contrast, RECIPE.saturation, RECIPE.hue)
    place = ("brightness", "contrast", "saturation", "hue").index(name)
    limits = (theirs.brightness, theirs.contrast, theirs.saturation, theirs.hue)
    expected = [ColorJitter.get_params(*limits)[1 + place] for _ in range(COUNT)]
    assert ks_2samp(getattr(drawn().jitter, name).tolist(), expected).pvalue > 1e-3


def test_all_24_orders_of_jitter_are_equally_frequent() -> None:
    how = drawn().jitter
    orders = Counter((*order, place) for order, place in zip(how.order.tolist(), how.hue_place.tolist(), strict=True))
    assert len(orders) == 24
    assert chisquare(list(orders.values())).pvalue > 1e-3


def test_widths_of_blur_are_distributed_as_torchvisions() -> None:
    torch.manual_seed(0)
    theirs = GaussianBlur(23, sigma=(0.1, 2.0))
    expected = [theirs.get_params(*theirs.sigma) for _ in range(COUNT)]
    assert ks_2samp(drawn().sigmas.tolist(), expected).pvalue > 1e-3


def test_whether_an_image_is_changed_is_independent_of_its_other_changes() -> None:
    view = replace(RECIPE, jitter=0.5, gray=0.5, blur=0.5, solarize=0.5)
    changes = drawn(view)
    is_jittered = changes.jitter.hue_place != UNTOUCHED
    switches = (changes.is_flipped, is_jittered, changes.is_gray, changes.sigmas > 0, changes.is_solarized)
    correlations = torch.corrcoef(torch.stack(switches).float())
    assert (correlations - torch.eye(5)).abs().max() < 4 / COUNT**0.5
