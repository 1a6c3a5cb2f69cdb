from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sklearn
import torch
from PIL import Image
from torch import Tensor

from spt.data.files import FileImages, decode, decode_reduced
from spt.data.images import Key
from spt.views.reduced import Box, crop_reduced, largest_reduction
from spt.views.views import Views
from tests.views.recipes import CROP_ONLY, crop, make_views

PHOTOGRAPHS = sorted((Path(sklearn.__file__).parent / "datasets" / "images").glob("*.jpg"))  # 640 x 427


def draws(views: Views, index: int, epoch: int = 0) -> Tensor:
    return views.draws(torch.tensor([epoch]), torch.tensor([index]))[0]


def differences(photograph: Path, views: Views, pixel_ratio: float, count: int = 60) -> Tensor:
    """[n, V, 3, S, S], levels of 255 between crops of reduced and of whole images, of those that were reduced."""
    whole, found = decode(str(photograph)), []
    for index in range(count):
        image, boxes, reduction = decode_reduced(draws(views, index), views, pixel_ratio, str(photograph))
        if reduction > 1:
            pairs = zip(views.cut(image, boxes, reduction), crop(views, whole, index, 0), strict=True)
            found.append(torch.stack([ours.float() - theirs.float() for ours, theirs in pairs]))
    return torch.stack(found)


def test_there_are_photographs() -> None:
    assert len(PHOTOGRAPHS) == 2


@pytest.mark.parametrize("photograph", PHOTOGRAPHS, ids=lambda path: path.stem)
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("size", [32, 96])
@pytest.mark.parametrize(("pixel_ratio", "mean", "worst_decibel"), [(1.0, 2.5, 30.0), (2.0, 1.0, 39.0)])
def test_crops_of_reduced_photographs_are_close_to_those_of_whole_ones(
    photograph: Path, interpolation: str, size: int, pixel_ratio: float, mean: float, worst_decibel: float
) -> None:
    views = make_views({"only": replace(CROP_ONLY, interpolation=interpolation)}, global_size=size)
    error = differences(photograph, views, pixel_ratio)
    assert len(error) >= 5
    assert error.abs().mean() < mean
    assert error.mean().abs() < 0.2
    signal_to_noise = 20 * np.log10(255) - 10 * error.square().mean(dim=(1, 2, 3, 4)).log10()
    assert signal_to_noise.min() > worst_decibel


@pytest.mark.parametrize("reduction", [2, 4, 8])
@pytest.mark.parametrize("offset", range(8))
def test_box_keeps_its_place_to_a_fraction_of_a_reduced_pixel(reduction: int, offset: int) -> None:
    """Where a ramp's crop lies can be read from its middle; rounding the box would move it by up to four levels."""
    ramp = np.arange(256, dtype=np.float32)[None].repeat(64, 0)
    reduced = ramp.reshape(64 // reduction, reduction, 256 // reduction, reduction).mean((1, 3)).round()
    image = Image.fromarray(reduced.astype(np.uint8)).convert("RGB")
    box = Box(top=0, left=40 + offset, height=64, width=128)
    crop = crop_reduced(image, box, reduction, 8, "bicubic").float()
    expected = box.left + (torch.arange(8) + 0.5) * 16 - 0.5
    assert (crop[0, 4, 1:-1] - expected[1:-1]).abs().max() <= 1.0


@pytest.mark.parametrize(
    ("box", "size", "pixel_ratio", "expected"),
    [
        (Box(0, 0, 400, 300), 100, 1.0, 2),
        (Box(0, 0, 400, 300), 100, 2.0, 1),
        (Box(7, 9, 300, 401), 75, 1.0, 4),
        (Box(0, 0, 2000, 1792), 224, 1.0, 8),
        (Box(0, 0, 2000, 1791), 224, 1.0, 4),
        (Box(0, 0, 9999, 9999), 32, 1.5, 8),
        (Box(0, 0, 20, 20), 32, 1.0, 1),
    ],
)
def test_shorter_side_of_a_box_limits_the_reduction(box: Box, size: int, pixel_ratio: float, expected: int) -> None:
    assert largest_reduction([box], [size], pixel_ratio) == expected


def test_neediest_view_limits_the_reduction() -> None:
    boxes = [Box(0, 0, 900, 900), Box(5, 5, 100, 100)]
    assert largest_reduction(boxes, [224, 96], 1.0) == 1
    assert largest_reduction(boxes, [224, 25], 1.0) == 4


def test_images_that_need_all_their_pixels_are_the_same_to_the_bit() -> None:
    views = make_views({"first": CROP_ONLY, "second": CROP_ONLY}, global_size=420)
    path = str(PHOTOGRAPHS[0])
    image, boxes, reduction = decode_reduced(draws(views, 5, epoch=3), views, 1.0, path)
    assert reduction == 1
    for ours, theirs in zip(views.cut(image, boxes, 1), crop(views, decode(path), 5, 3), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("ending", ["jpg", "png", "tif"])
def test_other_formats_and_colours_are_read_too(tmp_path: Path, mode: str, ending: str) -> None:
    if (mode, ending) == ("CMYK", "png"):
        return
    file = tmp_path / f"image.{ending}"
    Image.open(PHOTOGRAPHS[0]).convert(mode).save(file)
    views = make_views({"only": replace(CROP_ONLY, crop_scale=[0.9, 1.0])}, global_size=32)
    image, boxes, reduction = decode_reduced(draws(views, 0), views, 1.0, str(file))
    assert reduction == (8 if ending == "jpg" else 1)
    assert image.size == ((80, 54) if ending == "jpg" else (640, 427))
    error = views.cut(image, boxes, reduction)[0].float() - crop(views, decode(str(file)), 0, 0)[0].float()
    assert error.abs().mean() < 3


def test_samples_of_reduced_images_hold_bytes_and_integers_alone() -> None:
    """What crosses to the training process is as small as it can be."""
    paths = [str(path) for path in PHOTOGRAPHS]
    views = make_views({"only": CROP_ONLY}, local_view=CROP_ONLY, num_local_views=2, global_size=32)
    files = FileImages(paths, torch.arange(2), reduced_decoding=1.0, on_unreadable="stop")
    keys = [Key(1, 1), Key(1, 0)]
    for sample in (files.training_sample(keys, views), files.evaluation_sample(keys, views)):
        assert {view.dtype for view in sample.images} == {torch.uint8}
        assert {column.dtype for column in sample[1:4]} == {torch.int64}
        assert sample.labels.tolist() == [1, 0]


def test_evaluated_view_is_of_the_whole_image() -> None:
    paths, views = [str(PHOTOGRAPHS[0])], make_views({"only": CROP_ONLY}, global_size=32)
    whole, reduced = (
        FileImages(paths, torch.zeros(1, dtype=torch.int64), reduced_decoding=ratio, on_unreadable="stop")
        .evaluation_sample([Key(0, 0)], views)
        .images[0]
        for ratio in (None, 1.0)
    )
    assert torch.equal(whole, reduced)
