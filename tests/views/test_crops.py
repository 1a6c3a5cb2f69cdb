from __future__ import annotations

import pytest
import torch
from scipy.stats import ks_2samp
from torchvision.transforms.v2 import RandomResizedCrop
from torchvision.transforms.v2 import functional as tv

from spt.views.boxes import DRAWS, Boxes, random_boxes
from spt.views.draws import uniform
from spt.views.resample import crop_and_resize, resize_bytes
from tests.views.recipes import random_bytes

HEIGHT, WIDTH = 41, 60
SCALE, RATIO = [0.08, 1.0], [3 / 4, 4 / 3]


def draw_boxes(count: int, *, height: int = HEIGHT, width: int = WIDTH, scale: list[float] | None = None) -> Boxes:
    indices = torch.arange(count)
    draws = uniform(0, 0, torch.zeros_like(indices), indices, DRAWS)
    return random_boxes(draws, height=height, width=width, scale=scale or SCALE, ratio=RATIO)


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("size", [9, 30, 64])
def test_batched_crops_equal_torchvisions_antialiased_ones(interpolation: str, size: int) -> None:
    """Trap 71."""
    boxes = draw_boxes(7)
    images = random_bytes(7, 3, HEIGHT, WIDTH).float() / 255
    mode = tv.InterpolationMode(interpolation)
    crops = crop_and_resize(images, boxes, size, interpolation)
    for row, (top, left, height, width) in enumerate(zip(*(side.tolist() for side in boxes), strict=True)):
        expected = tv.resized_crop(images[row], top, left, height, width, [size, size], mode, antialias=True)
        torch.testing.assert_close(crops[row], expected.clamp(0, 1), atol=1e-3, rtol=0)


def test_crops_in_bytes_equal_batched_ones() -> None:
    boxes = draw_boxes(5)
    # bytes are cut off between the two axes too: keep clear of that
    images = random_bytes(5, 3, HEIGHT, WIDTH) // 2 + 64
    crops = crop_and_resize(images.float() / 255, boxes, 12, "bicubic")
    for row, (top, left, height, width) in enumerate(zip(*(side.tolist() for side in boxes), strict=True)):
        alone = resize_bytes(images[row, :, top : top + height, left : left + width], 12, 12, "bicubic")
        torch.testing.assert_close(alone / 255, crops[row], atol=2 / 255, rtol=0)


def test_boxes_are_distributed_as_torchvisions() -> None:
    """Trap 70."""
    torch.manual_seed(0)
    image = torch.zeros(3, HEIGHT, WIDTH)
    transform = RandomResizedCrop(8, scale=SCALE, ratio=RATIO)
    expected = [transform.make_params([image]) for _ in range(1500)]
    boxes = draw_boxes(1500)
    ours = zip(*(side.tolist() for side in boxes), strict=True)
    named = [{"top": top, "left": left, "height": height, "width": width} for top, left, height, width in ours]
    for measure in (
        lambda box: box["height"] * box["width"],
        lambda box: box["width"] / box["height"],
        lambda box: box["top"],
        lambda box: box["left"],
    ):
        assert ks_2samp([measure(box) for box in named], [measure(box) for box in expected]).pvalue > 1e-3


def test_boxes_lie_inside_their_image_and_reach_its_edges() -> None:
    boxes = draw_boxes(3000, height=6, width=5)
    assert boxes.tops.min() == boxes.lefts.min() == 0
    assert (boxes.tops + boxes.heights).max() == 6
    assert (boxes.lefts + boxes.widths).max() == 5
    assert min(boxes.heights.min(), boxes.widths.min()) >= 1


@pytest.mark.parametrize(("height", "width", "expected"), [(10, 90, (0, 38, 10, 13)), (90, 10, (38, 0, 13, 10))])
def test_box_that_never_fits_is_the_largest_central_one(height: int, width: int, expected: tuple[int, ...]) -> None:
    boxes = draw_boxes(4, height=height, width=width, scale=[0.9, 1.0])
    for side, value in zip(boxes, expected, strict=True):
        assert torch.equal(side, torch.full((4,), value))


def test_every_image_of_a_batch_has_a_box_of_its_own() -> None:
    """Trap 70."""
    assert len(set(zip(*(side.tolist() for side in draw_boxes(50)), strict=True))) > 40
