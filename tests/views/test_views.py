from __future__ import annotations

import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as tv

from spt.config.errors import ConfigError
from tests.views.recipes import CROP_ONLY, EVERYTHING, WHOLE_IMAGE, crop, make_sample, make_views, random_bytes

B, HEIGHT, WIDTH = 4, 18, 21


def test_views_come_in_order_and_size() -> None:
    """Trap 78."""
    views = make_views({"first": EVERYTHING, "second": CROP_ONLY}, local_view=EVERYTHING, num_local_views=3)
    global_views, local_views = views(make_sample(random_bytes(B, 3, HEIGHT, WIDTH), B))
    assert [tuple(view.shape) for view in global_views] == [(B, 3, 12, 12)] * 2
    assert [tuple(view.shape) for view in local_views] == [(B, 3, 5, 5)] * 3
    assert {view.dtype for view in global_views + local_views} == {torch.float32}


def test_ready_made_crops_keep_their_order() -> None:
    """Trap 78."""
    views = make_views({"first": WHOLE_IMAGE, "second": WHOLE_IMAGE}, local_view=WHOLE_IMAGE, num_local_views=3)
    crops = [torch.full((B, 3, size, size), place, dtype=torch.uint8) for place, size in enumerate(views.sizes)]
    global_views, local_views = views(make_sample(crops, B))
    for place, view in enumerate(global_views + local_views):
        torch.testing.assert_close(view, crops[place] / 255)


def test_views_depend_on_seed_epoch_and_index_alone() -> None:
    views = make_views({"first": EVERYTHING, "second": EVERYTHING})
    images = random_bytes(B, 3, HEIGHT, WIDTH)
    whole = views(make_sample(images, B, first=10))[0][1]
    alone = views(make_sample(images[2:3], 1, first=12))[0][1]
    torch.testing.assert_close(alone[0], whole[2], atol=1e-6, rtol=0)
    assert not torch.allclose(views(make_sample(images, B, first=10, epoch=1))[0][1], whole)
    assert not torch.allclose(views(make_sample(images, B, first=11))[0][1], whole)
    others = make_views({"first": EVERYTHING, "second": EVERYTHING}, seed=4)
    assert not torch.allclose(others(make_sample(images, B, first=10))[0][1], whole)


def test_views_of_one_image_differ_although_their_recipe_is_the_same() -> None:
    views = make_views({"first": EVERYTHING, "second": EVERYTHING})
    first, second = views(make_sample(random_bytes(B, 3, HEIGHT, WIDTH), B))[0]
    assert not torch.allclose(first, second)


def test_global_random_state_is_left_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    make_views({"first": EVERYTHING})(make_sample(random_bytes(B, 3, HEIGHT, WIDTH), B))
    assert torch.equal(torch.get_rng_state(), before)


def test_crops_of_workers_give_the_same_views_as_crops_of_the_device() -> None:
    views = make_views({"first": EVERYTHING, "second": CROP_ONLY}, local_view=EVERYTHING, num_local_views=2)
    images = random_bytes(B, 3, HEIGHT, WIDTH)
    crops = [crop(views, image, index, 0) for index, image in enumerate(images)]
    by_workers = views(make_sample([torch.stack(view) for view in zip(*crops, strict=True)], B))
    by_device = views(make_sample(images, B))
    for ours, theirs in zip(by_workers[0] + by_workers[1], by_device[0] + by_device[1], strict=True):
        # bytes are rounded, and jitter and solarization spread the difference: nearly all pixels agree
        assert ((ours - theirs).abs() < 0.03).float().mean() > 0.97


def test_image_of_pil_gives_the_same_crops_as_its_bytes() -> None:
    views = make_views({"first": EVERYTHING})
    image = random_bytes(3, HEIGHT, WIDTH)
    picture = Image.fromarray(image.permute(1, 2, 0).numpy())
    assert torch.equal(crop(views, picture, 5, 2)[0], crop(views, image, 5, 2)[0])


def test_normalisation_comes_last() -> None:
    views = make_views({"only": WHOLE_IMAGE})
    views.mean, views.std = [0.1, 0.2, 0.3], [0.5, 0.25, 0.125]
    white = torch.full((B, 3, 12, 12), 255, dtype=torch.uint8)
    expected = torch.tensor([0.9 / 0.5, 0.8 / 0.25, 0.7 / 0.125])
    torch.testing.assert_close(views(make_sample(white, B))[0][0][0, :, 3, 4], expected)
    torch.testing.assert_close(views.evaluation_view(white)[0, :, 3, 4], expected)


@pytest.mark.parametrize(("height", "width"), [(18, 21), (30, 17), (14, 14)])
def test_evaluation_view_is_torchvisions_resize_and_center_crop(height: int, width: int) -> None:
    views = make_views({"only": WHOLE_IMAGE}, global_size=11, evaluation_crop=0.7)
    # bytes are cut off between the two axes too: keep clear of that
    images = random_bytes(B, 3, height, width) // 2 + 64
    resized = tv.resize(images.float() / 255, [16], tv.InterpolationMode.BICUBIC, antialias=True)
    expected = tv.center_crop(resized, [11, 11]).clamp(0, 1)
    torch.testing.assert_close(views.evaluation_view(images), expected, atol=1e-3, rtol=0)
    crops = torch.stack([views.evaluation_crop_of(image) for image in images])
    torch.testing.assert_close(views.evaluation_view([crops]), expected, atol=2 / 255, rtol=0)


def test_evaluation_view_of_an_image_of_its_size_is_the_image() -> None:
    images = random_bytes(B, 3, 12, 12)
    torch.testing.assert_close(make_views({"only": EVERYTHING}).evaluation_view(images), images / 255)


def test_views_stay_exact_under_autocast() -> None:
    views = make_views({"only": EVERYTHING})
    sample = make_sample(random_bytes(B, 3, HEIGHT, WIDTH), B)
    expected = views(sample)[0][0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(views(sample)[0][0], expected)


def test_views_stay_exact_in_a_half_precision_module() -> None:
    views = make_views({"only": EVERYTHING})
    sample = make_sample(random_bytes(B, 3, HEIGHT, WIDTH), B)
    expected = views(sample)[0][0]
    assert torch.equal(views.bfloat16()(sample)[0][0], expected)


def test_local_views_without_a_recipe_are_refused() -> None:
    with pytest.raises(ConfigError, match="views=dino"):
        make_views({"only": CROP_ONLY}, num_local_views=2)


def test_views_without_a_global_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="global_views"):
        make_views({})


def test_unknown_place_to_make_views_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"views\.made_on=gpu"):
        make_views({"only": CROP_ONLY}, made_on="gpu")
