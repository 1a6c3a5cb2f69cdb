from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest
import torch

from spt.views import together
from spt.views.blur import gaussian_blur
from spt.views.color import UNTOUCHED, Jitter, jitter
from spt.views.color import _jitter as jitter_in_place
from spt.views.color import _steps as steps_of
from tests.views.recipes import CROP_ONLY, EVERYTHING, make_sample, make_views, random_bytes
from tests.views.test_conf import VIEWS, compose_views

B, HEIGHT, WIDTH = 5, 18, 21


@pytest.mark.parametrize("are_crops_ready", [False, True])
def test_views_of_one_recipe_are_the_same_in_one_part_and_in_many(
    are_crops_ready: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = make_views({"first": EVERYTHING, "second": EVERYTHING}, local_view=EVERYTHING, num_local_views=3)
    images = [random_bytes(B, 3, size, size) for size in views.sizes]
    sample = make_sample(images if are_crops_ready else random_bytes(B, 3, HEIGHT, WIDTH), B)
    whole = views(sample)
    monkeypatch.setattr(together, "_CACHED", 3 * 5**2)  # floats: one local view
    for ours, theirs in zip(chain(*views(sample)), chain(*whole), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


def test_views_of_two_recipes_are_those_of_each_alone() -> None:
    sample = make_sample(random_bytes(B, 3, HEIGHT, WIDTH), B)
    mixed = make_views({"first": EVERYTHING, "second": CROP_ONLY, "third": EVERYTHING})(sample)[0]
    alike = make_views({"first": EVERYTHING, "second": EVERYTHING, "third": EVERYTHING})(sample)[0]
    for place in (0, 2):
        torch.testing.assert_close(mixed[place], alike[place], atol=1e-6, rtol=0)
    plain = make_views({"first": CROP_ONLY, "second": CROP_ONLY})(sample)[0]
    torch.testing.assert_close(mixed[1], plain[1], atol=1e-6, rtol=0)


@pytest.mark.parametrize("option", VIEWS)
@pytest.mark.parametrize("are_crops_ready", [False, True])
def test_an_accelerator_is_never_waited_for(option: str, are_crops_ready: bool) -> None:
    """Tensors of the meta device have no values: reading one is an error."""
    views = compose_views(option)
    indices = torch.zeros(B, dtype=torch.int64, device="meta")
    images = torch.zeros(B, 3, 12, 12, dtype=torch.uint8, device="meta")
    sample = make_sample([images] * len(views.views) if are_crops_ready else images, B)
    sample = sample._replace(indices=indices, epochs=indices)
    for place, view in enumerate(views.views):
        (made,) = together.make_alike(
            view, sample, seed=1, places=[place], size=12, normalise=lambda made: made.mul_(2)
        )
        assert made.shape == (B, 3, 12, 12)


@pytest.mark.parametrize("mode", ["multiplicative", "additive"])
def test_six_steps_of_jitter_for_all_images_equal_each_images_own(mode: str) -> None:
    """What accelerators compute, on a CPU."""
    count = 40
    draws = torch.rand(4, count, generator=torch.Generator().manual_seed(0))
    order = torch.rand(count, 3, generator=torch.Generator().manual_seed(1)).argsort(dim=1)
    hue = torch.where(torch.arange(count) % 5 > 0, draws[3] - 0.5, 0.0)
    hue_place = torch.arange(count) % 5 + UNTOUCHED
    how = Jitter(0.4 + draws[0], 0.4 + draws[1], 0.4 + draws[2], hue, order, hue_place)
    images = random_bytes(count, 3, HEIGHT, WIDTH).float() / 255
    everything = [slice(None)] * 3
    for_all = jitter_in_place(images.clone(), steps_of(how, mode), hue, before=everything, after=everything)
    jittered = jitter(images, how, mode)
    torch.testing.assert_close(jittered, for_all, atol=1e-6, rtol=0)
    assert torch.equal(jittered[hue_place == UNTOUCHED], images[hue_place == UNTOUCHED])


def test_blur_in_blocks_equals_the_dense_product() -> None:
    """Of a CPU, where what is out of reach costs nothing, and of other devices."""
    size, sigmas = 130, torch.tensor([0.0, 0.2, 1.4, 3.0, 9.0])
    images = random_bytes(5, 3, size, size).float() / 255
    squares = (torch.arange(size)[:, None] - torch.arange(size)).double().square()
    kernels = torch.exp(-squares / (2 * sigmas.double().clamp(min=1e-3)[:, None, None] ** 2))
    kernels /= kernels.sum(dim=-1, keepdim=True)
    expected = (kernels[:, None] @ images.double() @ kernels[:, None].transpose(-1, -2)).float()
    torch.testing.assert_close(gaussian_blur(images, sigmas), expected, atol=2e-6, rtol=0)


def test_views_stay_exact_when_the_default_type_is_a_half_one() -> None:
    """As precision=bf16-true sets it: counting pixels in bfloat16 fails beyond 128 of them."""
    views = make_views({"only": replace(EVERYTHING, solarize=0.0)}, global_size=200)
    sample = make_sample(random_bytes(B, 3, 150, 210), B)
    expected = views(sample)[0][0]
    torch.set_default_dtype(torch.bfloat16)
    try:
        made = views(sample)[0][0]
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(made, expected)
