"""torchvision's views in workers have the distributions of the batched ones, and are fixed by their keys."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from scipy.stats import binomtest, ks_2samp
from torch import Tensor
from torchvision.transforms import v2

import spt
from spt.config.errors import ConfigError
from spt.data.images import Samples
from spt.data.sampler import GlobalBatchSampler, Position
from spt.views.blur import gaussian_blur
from spt.views.pipeline import Pipeline
from spt.views.view import View
from spt.views.views import Views
from tests.data.sets import Tiny, make_data, make_images
from tests.views.recipes import CROP_ONLY, EVERYTHING, WHOLE_IMAGE, crop, make_sample, make_views, random_bytes

N, SIZE = 400, 8
BYOL = replace(EVERYTHING, brightness_mode="additive", brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1)


def by_workers(view: View, image: Tensor) -> Tensor:
    """[N, 3, SIZE, SIZE], levels of 255 of N views of an image."""
    views = make_views({"only": view}, global_size=SIZE, made_on="worker")
    return torch.stack([crop(views, image, index, 0)[0] for index in range(N)]).float()


def by_both(view: View, image: Tensor) -> tuple[Tensor, Tensor]:
    """The same made on the device, then in workers, from unrelated draws."""
    sample = make_sample(image.expand(N, -1, -1, -1), N)
    device = make_views({"only": view}, global_size=SIZE)(sample)[0][0]
    return (255 * device).round(), by_workers(view, image)


def coordinates() -> Tensor:
    """[3, 90, 120]: red is the column, green is the row."""
    rows, columns = torch.meshgrid(torch.arange(90), torch.arange(120), indexing="ij")
    return torch.stack([columns, rows, rows]).byte()


def two_colours() -> Tensor:
    """[3, 20, 24]: a reddish and a bluish half, far from black and white."""
    image = torch.tensor([120, 100, 90], dtype=torch.uint8)[:, None, None].repeat(1, 20, 24)
    image[:, :, 12:] = torch.tensor([90, 105, 125], dtype=torch.uint8)[:, None, None]
    return image


def noise() -> Tensor:
    return random_bytes(3, 20, 24)


def sides(views: Tensor) -> Tensor:
    """[N, 4], top, left, height and width of crops of `coordinates`, read from their ramps."""
    across, down = views[:, 0].mean(dim=1), views[:, 1].mean(dim=2)  # [N, SIZE]
    width, height = ((line[:, -2] - line[:, 1]) * SIZE / (SIZE - 3) for line in (across, down))
    left, top = across.mean(dim=1) - width / 2, down.mean(dim=1) - height / 2
    return torch.stack([top, left, height, width], dim=1)


def same_distribution(measures: tuple[Tensor, Tensor]) -> bool:
    return bool(ks_2samp(measures[0].numpy(), measures[1].numpy()).pvalue > 1e-3)


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_crops_have_the_same_areas_shapes_and_places(interpolation: str) -> None:
    device, workers = (
        sides(views) for views in by_both(replace(CROP_ONLY, interpolation=interpolation), coordinates())
    )
    for measure in (
        lambda box: box[:, 2] * box[:, 3],
        lambda box: box[:, 3] / box[:, 2],
        lambda box: box[:, 0],
        lambda box: box[:, 1],
    ):
        assert same_distribution((measure(device), measure(workers)))


STRENGTHS = {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2}
NONE = dict.fromkeys(STRENGTHS, 0.0)


@pytest.mark.parametrize("name", STRENGTHS)
@pytest.mark.parametrize("mode", ["multiplicative", "additive"])
def test_jitter_factors_have_the_same_distribution(name: str, mode: str) -> None:
    strength = 0.3 if mode == "additive" else STRENGTHS[name]  # added to 90 to 125 it stays off 0 and 255
    view = replace(WHOLE_IMAGE, jitter=1.0, brightness_mode=mode, **{**NONE, name: strength})
    pair = by_both(view, two_colours())
    left, right = ([views[:, :, 3, column] for views in pair] for column in (1, -2))  # [N, 3] each
    measures = {
        "brightness": [colour.mean(dim=1) for colour in left],
        "contrast": [one[:, 0] - other[:, 0] for one, other in zip(left, right, strict=True)],
        "saturation": [colour[:, 0] - colour[:, 2] for colour in left],
        "hue": [colour[:, 1] - colour[:, 2] for colour in left],
    }[name]
    assert measures[0].std() > 2
    assert same_distribution((measures[0], measures[1]))


@pytest.mark.parametrize("operation", ["flip", "jitter", "gray", "blur", "solarize"])
@pytest.mark.parametrize("probability", [0.0, 0.2, 1.0])
def test_operations_happen_as_often_in_workers(operation: str, probability: float) -> None:
    """Trap 65."""
    view = replace(WHOLE_IMAGE, blur_sigma=[1.0, 2.0], blur_reference_size=SIZE, **{operation: probability})
    plain, changed = by_workers(WHOLE_IMAGE, noise()), by_workers(view, noise())
    times = int((changed != plain).flatten(1).any(dim=1).sum())
    assert binomtest(times, N, probability).pvalue > 1e-3


@pytest.mark.parametrize("view", [EVERYTHING, BYOL], ids=["simclr", "byol"])
def test_whole_recipes_agree_in_what_can_be_measured_of_a_view(view: View) -> None:
    pair = by_both(replace(view, solarize=0.2), noise())
    for measure in (
        lambda views: views.mean(dim=(1, 2, 3)),
        lambda views: views.std(dim=(1, 2, 3)),
        lambda views: views.mean(dim=(2, 3))[:, 0] - views.mean(dim=(2, 3))[:, 2],
        lambda views: views.diff(dim=3).abs().mean(dim=(1, 2, 3)),
    ):
        assert same_distribution((measure(pair[0]), measure(pair[1])))


def test_order_of_an_additive_jitter_is_any() -> None:
    """All four in all orders: a fixed one would give fewer colours."""
    view = replace(WHOLE_IMAGE, jitter=1.0, brightness_mode="additive", brightness=0.4, contrast=0.6)
    device, workers = by_both(view, two_colours())
    for place in (0, 2):
        assert same_distribution((device[:, place, 3, 1], workers[:, place, 3, 1]))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
def test_blur_of_workers_is_the_devices_away_from_the_edge(sigma: float) -> None:
    size, image = 40, random_bytes(3, 40, 40)
    view = replace(WHOLE_IMAGE, blur=1.0, blur_sigma=[sigma, sigma], blur_reference_size=size)
    ours = gaussian_blur(image[None].float(), torch.tensor([sigma]))[0]
    theirs = Pipeline(view, size)(image, 0).float()
    inside = slice(9, -9)
    assert (ours - theirs)[:, inside, inside].abs().max() < 0.7  # rounding, and what the kernel leaves out


def test_solarized_bytes_are_those_from_the_threshold_on() -> None:
    """Trap 67."""
    image = torch.arange(64, 192, 2, dtype=torch.uint8).reshape(1, 8, 8).expand(3, -1, -1)
    solarized = Pipeline(replace(WHOLE_IMAGE, solarize=1.0), 8)(image, 0)
    assert torch.equal(solarized, torch.where(image >= 128, 255 - image, image))


def test_views_of_workers_depend_on_seed_place_epoch_and_index_alone() -> None:
    views = make_views({"first": EVERYTHING, "second": EVERYTHING}, made_on="worker")
    image = random_bytes(3, 20, 24)
    first, second = crop(views, image, 7, 2)
    torch.manual_seed(9)
    draws = views.draws(torch.tensor([5, 2]), torch.tensor([1, 7]))
    assert torch.equal(views.crop(image, draws[1])[0], first)
    others = make_views({"first": EVERYTHING, "second": EVERYTHING}, made_on="worker", seed=4)
    for other in (second, crop(views, image, 7, 3)[0], crop(views, image, 8, 2)[0], crop(others, image, 7, 2)[0]):
        assert not torch.equal(other, first)


def test_pipelines_leave_the_global_random_states_alone() -> None:
    def draw(image: Tensor) -> Tensor:
        value = torch.rand(()) + random.random() + np.random.rand()
        return (image[:, :2, :2] + 255 * value / 3).byte()

    torch.manual_seed(0)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    pipeline, image = Pipeline(draw, 2), torch.zeros(3, 4, 4)
    assert torch.equal(pipeline(image, 3), pipeline(image, 3))
    assert not torch.equal(pipeline(image, 3), pipeline(image, 4))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]


OWN_VIEWS = """
defaults: [_self_, view/simclr@global_views.ours]
_target_: spt.views.views.Views
seed: ${seed}
made_on: worker
global_size: 12
local_size: 5
num_local_views: 1
mean: [0.0, 0.0, 0.0]
std: [1.0, 1.0, 1.0]
evaluation_crop: 1.0
local_view: {_target_: torchvision.transforms.v2.CenterCrop, size: 5}
global_views:
  own:
    _target_: torchvision.transforms.v2.Compose
    transforms:
      - {_target_: torchvision.transforms.v2.RandomResizedCrop, size: 12, scale: [0.2, 0.5], interpolation: 3}
      - {_target_: torchvision.transforms.v2.RandomRotation, degrees: 30}
"""


def test_views_may_be_pipelines_of_torchvision_out_of_a_users_yaml(tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "own.yaml").write_text(OWN_VIEWS)
    cfg = spt.compose("views=own", "backbone=resnet18", "~recipe", config_dir=tmp_path)
    views = cast(Views, instantiate(cfg.views, _convert_="all"))
    image = random_bytes(3, 20, 24)
    made = crop(views, image, 3, 0)
    assert [tuple(view.shape) for view in made] == [(3, 12, 12), (3, 12, 12), (3, 5, 5)]
    assert all(torch.equal(*pair) for pair in zip(made, crop(views, image, 3, 0), strict=True))
    (first, second), (local,) = views(make_sample([view[None] for view in made], 1))
    torch.testing.assert_close(first[0], made[0] / 255)
    torch.testing.assert_close(second[0], made[1] / 255)
    torch.testing.assert_close(local[0], made[2] / 255)


def test_pipelines_of_single_images_are_refused_on_the_device() -> None:
    with pytest.raises(ConfigError, match=r"views\.made_on=worker"):
        make_views({"own": v2.CenterCrop(12)})


@pytest.mark.parametrize("transform", [v2.CenterCrop(11), v2.Compose([v2.CenterCrop(12), v2.ToDtype(torch.float32)])])
def test_view_of_another_size_or_type_is_refused(transform: v2.Transform) -> None:
    views = make_views({"own": transform}, made_on="worker")
    with pytest.raises(ConfigError, match=r"torch\.uint8 \(3, 12, 12\)"):
        crop(views, random_bytes(3, 20, 24), 0, 0)


def test_normalisation_of_workers_views_comes_last_and_on_the_device() -> None:
    views = make_views({"only": WHOLE_IMAGE}, made_on="worker")
    views.mean, views.std = [0.1, 0.2, 0.3], [0.5, 0.25, 0.125]
    white = torch.full((2, 3, 12, 12), 255, dtype=torch.uint8)
    expected = torch.tensor([0.9 / 0.5, 0.8 / 0.25, 0.7 / 0.125])
    torch.testing.assert_close(views(make_sample([white], 2))[0][0][0, :, 3, 4], expected)


def worker_views() -> Views:
    return make_views({"first": EVERYTHING, "second": BYOL}, made_on="worker", global_size=5)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_loader_gives_bytes_that_its_workers_do_not_change(num_workers: int) -> None:
    """Images in memory too are for workers then; evaluation still gets them as they are."""
    images, views = make_images(26).images, worker_views()
    data = make_data(Tiny(num_train=26, num_val=5), num_workers=num_workers)
    data.attach(views)
    samples = list(data.train_dataloader())
    assert [[view.dtype for view in sample.images] for sample in samples] == [[torch.uint8] * 2] * 4
    for sample in samples:
        for row, index in enumerate(sample.indices.tolist()):
            alone = crop(views, images[index], index, 0)
            assert all(torch.equal(sample.images[place][row], alone[place]) for place in range(2))
    assert isinstance(next(iter(data.val_dataloader()[1])).images, Tensor)


def test_resumed_epoch_has_the_views_of_the_uninterrupted_one() -> None:
    """Trap 87."""
    samples = Samples(make_images(26), worker_views(), is_training=True)

    def views_from(start: int) -> list[list[Tensor]]:
        sampler = GlobalBatchSampler(
            num_images=26, global_batch_size=6, accumulation=1, rank=0, world_size=1, seed=0,
            position=lambda: Position(3, start),
        )  # fmt: skip
        return [samples.__getitems__(keys).images for keys in sampler]

    whole, rest = views_from(0), views_from(2)
    assert len(whole) == 4
    for ours, theirs in zip(whole[2:], rest, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
