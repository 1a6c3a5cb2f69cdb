from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from spt.config.resolvers import register
from spt.views.masks import MultiBlock
from spt.views.view import View
from spt.views.views import Views
from tests.views.recipes import make_sample, random_bytes

CONF = Path(__file__).parents[2] / "conf"
VIEWS = sorted(file.stem for file in (CONF / "views").glob("*.yaml"))
MASKS = sorted(file.stem for file in (CONF / "masks").glob("*.yaml"))


def compose_option(group: str, option: str) -> DictConfig:
    """One option's node, as in a run on 224-pixel images with patches of 16."""
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose(f"{group}/{option}")
    surroundings = {
        "seed": 1,
        "data": {"image_size": 224, "mean": [0.5] * 3, "std": [0.25] * 3, "evaluation_crop": 0.875},
        "backbone": {"patch_size": 16},
        "views": {"global_size": 224},
    }
    whole = OmegaConf.merge(surroundings, cfg)
    assert isinstance(whole, DictConfig)
    return whole[group]


def compose_views(option: str) -> Views:
    views = instantiate(compose_option("views", option), _convert_="all")
    assert isinstance(views, Views)
    return views


@pytest.mark.parametrize("option", VIEWS)
def test_every_option_makes_finite_views(option: str) -> None:
    views = compose_views(option)
    views.sizes = [24] * len(views.sizes)
    views.views = views.views[:4]
    images = random_bytes(2, 3, 30, 26)
    for view in views(make_sample(images, 2))[0]:
        assert view.shape == (2, 3, 24, 24)
        assert bool(view.isfinite().all())


def test_simclr_is_its_authors_recipe() -> None:
    views = compose_views("simclr")
    expected = View(
        crop_scale=[0.08, 1.0],
        crop_ratio=[3 / 4, 4 / 3],
        interpolation="bicubic",
        flip=0.5,
        jitter=0.8,
        brightness=0.8,
        contrast=0.8,
        saturation=0.8,
        hue=0.2,
        brightness_mode="multiplicative",
        gray=0.2,
        blur=0.5,
        blur_sigma=[0.1, 2.0],
        blur_reference_size=224,
        solarize=0.0,
        solarize_threshold=0.5,
    )
    assert views.views == [expected, expected]
    assert (views.mean, views.std) == ([0.0] * 3, [1.0] * 3)


def test_byols_views_differ_in_blur_and_solarization() -> None:
    first, second = compose_views("byol").views
    assert (first.crop_scale, first.brightness_mode) == ([0.08, 1.0], "additive")
    assert (first.brightness, first.contrast, first.saturation, first.hue) == (0.4, 0.4, 0.2, 0.1)
    assert [(view.blur, view.solarize) for view in (first, second)] == [(1.0, 0.0), (0.1, 0.2)]
    assert (second.brightness_mode, second.gray, second.flip) == ("additive", 0.2, 0.5)


def test_dino_has_two_global_and_eight_local_views_of_96_pixels() -> None:
    views = compose_views("dino")
    first, second, *local_views = views.views
    assert (views.num_global_views, len(local_views)) == (2, 8)
    assert views.sizes == [224] * 2 + [96] * 8
    assert [view.crop_scale for view in (first, second, local_views[0])] == [[0.4, 1.0], [0.4, 1.0], [0.05, 0.4]]
    assert [view.blur for view in (first, second, local_views[0])] == [1.0, 0.1, 0.5]
    assert [view.solarize for view in (first, second, local_views[0])] == [0.0, 0.2, 0.0]
    assert [view.blur_reference_size for view in (first, second, local_views[0])] == [224, 224, 96]
    assert {view.jitter for view in views.views} == {0.8}
    assert (views.mean, views.std) == ([0.5] * 3, [0.25] * 3)


def test_ijepa_crops_and_nothing_else() -> None:
    views = compose_views("ijepa")
    (view,) = views.views
    assert (view.crop_scale, view.interpolation) == ([0.3, 1.0], "bilinear")
    assert (view.flip, view.jitter, view.gray, view.blur, view.solarize) == (0.0, 0.0, 0.0, 0.0, 0.0)


def test_plain_view_is_the_evaluated_one() -> None:
    views = compose_views("plain")
    views.evaluation_crop = 1.0
    images = random_bytes(3, 3, 224, 224)
    assert (views(make_sample(images, 3))[0][0] - views.evaluation_view(images)).abs().max() < 1e-5


@pytest.mark.parametrize("option", MASKS)
def test_every_option_makes_masks(option: str) -> None:
    masks = instantiate(compose_option("masks", option), _convert_="all")
    assert isinstance(masks, MultiBlock)
    assert masks.grid == 14
    assert masks.num_targets == 4


def test_official_masks_differ_from_ours_in_three_switches_and_the_strict_limit() -> None:
    ours, official = compose_option("masks", "multiblock"), compose_option("masks", "official")
    assert {key for key in ours if ours[key] != official[key]} == {"min_keep", "edges", "truncation", "scale_and_ratio"}
