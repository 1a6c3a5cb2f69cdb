"""Everything that the config folders hold keeps its contract; found by glob, so that a new file is tested unasked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import pytest
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import Tensor

import spt
from spt.backbones.backbone import Backbone, TokenBackbone
from spt.config.build import build_backbone, build_method
from spt.config.tree import project_tree
from spt.testing import FIRST_STEP, check_method
from spt.types import Batch, Masks, Sample
from spt.views.views import Views
from tests.runs import METHODS, Losses, build, compose, fit, state

TREE = project_tree()
BACKBONES, VIEWS, DATA = TREE.options("backbone"), TREE.options("views"), TREE.options("data")
SMALL_BACKBONE = {"timm": ("backbone.name=vit_tiny_patch16_224", "+backbone.options.depth=1")}
# millions of parameters that the papers' tables give
PARAMETERS = {
    "vit_tiny": 5.5, "vit_small": 21.7, "vit_base": 85.8, "vit_large": 303.3, "resnet18": 11.2, "resnet50": 23.5,
}  # fmt: skip


def random_sample(size: int, *, images: int = 3, seed: int = 0) -> Sample:
    """Noise as a data loader gives it."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (images, 3, size, size), dtype=torch.uint8, generator=generator)
    return Sample(pixels, torch.zeros(images, dtype=torch.int64), torch.arange(images), torch.zeros(images).long())


def make_batch(cfg: DictConfig, sample: Sample) -> Batch:
    """What the config's views and masks make of a sample."""
    views = cast(Views, instantiate(cfg.views, _convert_="all"))
    masks = instantiate(cfg.get("masks"), _convert_="all")
    global_views, local_views = views(sample)
    return Batch(global_views, local_views, None if masks is None else cast(Masks, masks(sample, FIRST_STEP)))


@pytest.mark.parametrize("method", METHODS)
def test_a_method_keeps_its_contract(tmp_path: Path, method: str) -> None:
    cfg = compose(method, tmp_path)
    check_method(build_method(cfg), make_batch(cfg, random_sample(16, images=5)))


@pytest.mark.parametrize("method", METHODS)
def test_a_method_trains_with_the_views_and_the_optimizer_that_it_names(tmp_path: Path, method: str) -> None:
    run = build(method, tmp_path, "trainer.max_epochs=-1", "trainer.max_steps=2", "probes=none")
    before, losses = state(run), Losses()
    fit(run, losses)
    assert len(losses.values) == 2
    assert all(map(math.isfinite, losses.values))
    assert any(not torch.equal(before[name], value) for name, value in state(run).items() if name.endswith("weight"))


HALVES = [*((name, "bf16-mixed") for name in METHODS), ("simclr", "bf16-true")]


@pytest.mark.parametrize(("method", "precision"), HALVES)
def test_a_step_in_bfloat16_stays_finite(tmp_path: Path, method: str, precision: str) -> None:
    """Trap 28: losses are float32 whatever the networks compute in."""
    words = (f"precision={precision}", "trainer.max_epochs=-1", "trainer.max_steps=2", "optimizer.lr=0.001")
    run = build(method, tmp_path, *words)
    losses = Losses()
    fit(run, losses)
    assert all(map(math.isfinite, losses.values))
    assert all(bool(torch.isfinite(value).all()) for value in state(run).values())
    weights = {parameter.dtype for parameter in run.module.method.parameters()}
    assert weights == {torch.bfloat16 if precision == "bf16-true" else torch.float32}


def small_backbone(option: str, *, image_size: int, depth: int = 1) -> Backbone:
    """A backbone as its file has it, shallow if it has a depth."""
    cfg = spt.compose(f"backbone={option}", f"views.global_size={image_size}", *SMALL_BACKBONE.get(option, ()))
    if "depth" in cfg.backbone:
        cfg.backbone.depth = depth
    return build_backbone(cfg).eval()


@pytest.mark.parametrize("option", BACKBONES)
def test_a_backbone_has_the_size_that_it_is_known_for(option: str) -> None:
    cfg = spt.compose(f"backbone={option}", "data=fake")
    with torch.device("meta"):
        backbone = build_backbone(cfg)
        embeddings = backbone(torch.empty(2, 3, 224, 224)).embeddings
    assert embeddings.shape == (2, backbone.embed_dim)
    count = sum(parameter.numel() for parameter in backbone.parameters()) / 1e6
    assert option not in PARAMETERS or count == pytest.approx(PARAMETERS[option], abs=0.06)


@pytest.mark.parametrize("option", BACKBONES)
@torch.no_grad()
def test_a_backbone_keeps_its_protocol(option: str) -> None:
    """Trap 76: embeddings [B, D] of any crop of whole patches, square or not."""
    backbone = small_backbone(option, image_size=48)
    assert isinstance(backbone, TokenBackbone) == backbone.gives_tokens
    for height, width in ((48, 48), (32, 32), (32, 64)):
        features = backbone(torch.randn(3, 3, height, width))
        assert features.embeddings.shape == (3, backbone.embed_dim)
        assert bool(torch.isfinite(features.embeddings).all())
        if isinstance(backbone, TokenBackbone):
            num_tokens = height * width // backbone.patch_size**2
            assert features.tokens is not None
            assert features.tokens.shape == (3, num_tokens, backbone.embed_dim)
        else:
            assert features.tokens is None


@pytest.mark.parametrize("option", BACKBONES)
@torch.no_grad()
def test_tokens_that_are_dropped_are_neither_computed_nor_seen(option: str) -> None:
    """Trap 79: pixels of dropped patches change nothing, and all tokens kept equal no `keep`."""
    backbone = small_backbone(option, image_size=48)
    if not isinstance(backbone, TokenBackbone):
        assert not backbone.gives_tokens
        return
    images = torch.randn(2, 3, 48, 48)
    side = 48 // backbone.patch_size
    keep = torch.tensor([[0, side * side - 1], [side, 1]])  # [B, 2]
    kept = backbone(images, keep=keep)
    assert kept.tokens is not None
    assert kept.tokens.shape == (2, 2, backbone.embed_dim)
    changed = images + 9 * pixels_outside(keep, side, backbone.patch_size)
    assert torch.equal(backbone(changed, keep=keep).embeddings, kept.embeddings)
    everything = torch.arange(side * side).expand(2, -1)
    assert torch.allclose(backbone(images, keep=everything).embeddings, backbone(images).embeddings, atol=1e-5)


def pixels_outside(keep: Tensor, side: int, patch_size: int) -> Tensor:
    """[B, 1, S, S], 0 where a patch is kept and 1 elsewhere."""
    grid = torch.ones(len(keep), side * side).scatter(1, keep, 0.0).reshape(-1, 1, side, side)
    return grid.repeat_interleave(patch_size, dim=2).repeat_interleave(patch_size, dim=3)


@pytest.mark.parametrize("place", range(max(len(VIEWS), len(DATA))))
def test_every_kind_of_views_fits_every_kind_of_data(place: int) -> None:
    """Images in memory and images that workers crop, in the sizes and the normalisation of the data set."""
    option, data = VIEWS[place % len(VIEWS)], DATA[place % len(DATA)]
    folder = [f"data.source.root={TREE.folders[0]}"] if data == "image_folder" else []  # any that is there
    method = option if option in METHODS else "ijepa"  # which is content with one view
    cfg = spt.compose(f"method={method}", f"data={data}", *folder, f"views={option}", "~recipe")
    views = cast(Views, instantiate(cfg.views, _convert_="all"))
    sample = random_sample(min(cfg.data.image_size, 48), images=2)
    assert isinstance(sample.images, Tensor)
    cropped = [
        views.crop(image, draws)
        for image, draws in zip(sample.images, views.draws(sample.epochs, sample.indices), strict=True)
    ]
    by_workers = sample._replace(images=[torch.stack(view) for view in zip(*cropped, strict=True)])
    for made in (views(sample), views(by_workers)):
        global_views, local_views = made
        assert len(global_views) == len(cfg.views.global_views)
        assert len(local_views) == cfg.views.num_local_views
        assert {view.shape for view in global_views} == {(2, 3, cfg.views.global_size, cfg.views.global_size)}
        assert all(view.shape == (2, 3, cfg.views.local_size, cfg.views.local_size) for view in local_views)
        assert all(view.dtype == torch.float32 for view in [*global_views, *local_views])
    assert views.evaluation_view(sample.images).shape == (2, 3, cfg.views.global_size, cfg.views.global_size)
    assert len(cfg.data.mean) == len(cfg.data.std) == 3


@pytest.mark.parametrize("method", METHODS)
def test_views_and_masks_are_the_same_under_bfloat16_weights(tmp_path: Path, method: str) -> None:
    """Lightning's bf16-true makes bfloat16 the type of every tensor and quotient that names no other."""
    cfg = compose(method, tmp_path, *(["masks=official", "masks.min_keep=2"] if method == "ijepa" else []))
    expected = make_batch(cfg, random_sample(16))
    torch.set_default_dtype(torch.bfloat16)
    try:
        made = make_batch(cfg, random_sample(16))
    finally:
        torch.set_default_dtype(torch.float32)
    for first, second in zip(
        [*expected.global_views, *expected.local_views, *(expected.masks or ())],
        [*made.global_views, *made.local_views, *(made.masks or ())],
        strict=True,
    ):
        assert torch.equal(first, second)


def test_every_recipe_composes_with_its_data_method_and_backbone() -> None:
    """A recipe is named DATA-METHOD-BACKBONE."""
    for recipe in TREE.options("recipe"):
        data, method, backbone = recipe.split("-")
        cfg = spt.compose(f"data={data}", f"method={method}", f"backbone={backbone}")
        assert HydraConfig.get().runtime.choices["recipe"] == recipe
        assert "recipe" not in cfg


def test_every_experiment_composes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with as many GPUs as it asks for, and with its images there."""
    monkeypatch.setattr("spt.config.machine.count_gpus", lambda: 64)
    monkeypatch.setattr("spt.config.gathering.count_gpus", lambda: 64)
    for experiment in TREE.options("experiment"):
        text = (TREE.folders[0] / "experiment" / f"{experiment}.yaml").read_text()
        folder = [f"data.source.root={TREE.folders[0]}"] if "override /data: image_folder" in text else []
        assert spt.compose(f"experiment={experiment}", *folder).method._target_.startswith("methods.")
