"""Backbones that start from weights of others: the same embeddings, or a refusal that names every tensor."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import safetensors.torch
import timm
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from spt.backbones.backbone import Backbone
from spt.backbones.positions import resample_positions
from spt.backbones.resnet import ResNet
from spt.backbones.timm_model import timm_backbone
from spt.backbones.vit import VisionTransformer
from spt.checkpoint.reading import open_checkpoint
from spt.config.build import build_backbone, build_method
from spt.config.errors import CheckpointError, ConfigError
from spt.export.evaluated import Evaluated
from spt.export.export import export_backbone
from spt.method import Method
from spt.pretrained.fitting import collapsed
from spt.pretrained.start import start_from
from tests.export.runs import leave_run, noise
from tests.pretrained.layouts import (
    dino_checkpoint,
    dinov2_checkpoint,
    dinov2_names,
    ijepa_checkpoint,
    prefixed,
    randomised,
)
from tests.runs import METHODS, Saver, build, compose, fit, state

Wrap = Callable[[Mapping[str, Tensor]], Mapping[str, object]]


def vit(**changes: object) -> VisionTransformer:
    arguments: dict[str, object] = {
        "image_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 3, "num_heads": 2, "mlp_ratio": 2.0,
        "class_token": True, "positions": "learned", "init_std": 0.02, "patch_embed_init": "default", "drop_path": 0.0,
    }  # fmt: skip
    return VisionTransformer(**{**arguments, **changes})  # type: ignore[arg-type]


def timm_vit(name: str, **options: object) -> Backbone:
    size = {"img_size": 28, "embed_dim": 24, "num_heads": 2, "depth": 4}
    return timm_backbone(name=name, pretrained=False, drop_path=0.0, options={**size, **options})


def saved(content: object, folder: Path, *, legacy: bool = False) -> Path:
    path = folder / "published.pth"
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    return path


def backbones(method: Method) -> list[nn.Module]:
    networks = [method.networks.student, *([method.networks.teacher] if method.has_teacher else [])]
    return [dict(network.named_children()).get("backbone", network) for network in networks]


CASES: dict[str, tuple[Callable[[], Backbone], Wrap]] = {
    "dino": (vit, lambda tensors: dict(tensors)),
    "dino checkpoint": (vit, dino_checkpoint),
    "dino resnet": (
        lambda: ResNet(name="resnet18", stem="imagenet", zero_init_last=False, drop_path=0.0),
        lambda tensors: {**tensors, "fc.weight": torch.ones(3, 512), "fc.bias": torch.ones(3)},
    ),
    "dinov2": (
        lambda: timm_vit("vit_small_patch14_dinov2"), lambda tensors: dinov2_names(tensors, blocks_per_chunk=None),
    ),
    "dinov2 registers": (
        lambda: timm_vit("vit_small_patch14_reg4_dinov2"),
        lambda tensors: dinov2_names(tensors, blocks_per_chunk=None),
    ),
    "dinov2 checkpoint": (lambda: timm_vit("vit_small_patch14_dinov2"), dinov2_checkpoint),
    "dinov2 giant": (
        lambda: timm_vit("vit_giant_patch14_dinov2", depth=2),
        lambda tensors: {
            name.replace("mlp.fc1", "mlp.w12").replace("mlp.fc2", "mlp.w3"): tensor
            for name, tensor in dinov2_names(tensors, blocks_per_chunk=None).items()
        },
    ),
    "ijepa": (lambda: vit(class_token=False, positions="sincos"), ijepa_checkpoint),
    "timm": (
        lambda: timm_vit("vit_tiny_patch16_224", img_size=32),
        lambda tensors: {**tensors, "head.weight": torch.ones(9, 24), "head.bias": torch.ones(9)},
    ),
    "timm convnext": (
        lambda: timm_backbone(name="convnext_atto", pretrained=False, drop_path=0.0, options={}),
        lambda tensors: {**tensors, "head.fc.weight": torch.ones(9, 320), "head.fc.bias": torch.ones(9)},
    ),
    "deit": (vit, lambda tensors: {"model": {**tensors, "head.weight": torch.ones(9, 24), "head.bias": torch.ones(9)}}),
}  # fmt: skip


@pytest.mark.parametrize("layout", CASES)
@torch.no_grad()
def test_published_weights_give_their_networks_embeddings(tmp_path: Path, layout: str) -> None:
    """Trap 90: forward equality on a fixed input, and not a tensor of the backbone left as it was."""
    make, wrap = CASES[layout]
    source, target = make(), make().eval()
    randomised(source)
    images = noise(28 if "dinov2" in layout else 32)
    fitted = start_from(target, saved(wrap(source.network.state_dict()), tmp_path))
    assert torch.allclose(target(images).embeddings, source(images).embeddings, atol=1e-5)
    assert fitted.tensors.keys() == source.network.state_dict().keys()


def test_what_is_no_part_of_a_backbone_is_left_out_by_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = randomised(timm_vit("vit_small_patch14_dinov2"))
    with caplog.at_level(logging.INFO):
        fitted = start_from(
            timm_vit("vit_small_patch14_dinov2"), saved(dinov2_checkpoint(source.network.state_dict()), tmp_path)
        )
    assert len(fitted.left_out) == 9
    assert "published.pth (the teacher of DINO or DINOv2): " in caplog.text
    assert "left out mask_token (1), dino_head (4), ibot_head (4)" in caplog.text


@pytest.mark.parametrize("class_token", [True, False])
@torch.no_grad()
def test_positions_are_resampled_to_the_grid_of_the_run(tmp_path: Path, class_token: bool) -> None:
    options: dict[str, object] = {"class_token": class_token, "positions": "learned" if class_token else "sincos"}
    source, target = vit(image_size=28, **options), vit(image_size=16, **options)
    randomised(source)
    fitted = start_from(target, saved(source.network.state_dict(), tmp_path))
    assert fitted.resampled == ((7, 7), (4, 4))
    first = int(class_token)
    old, new = source.network.pos_embed, target.network.pos_embed
    assert torch.equal(new[:, first:], resample_positions(old[:, first:], (7, 7), (4, 4)))
    assert torch.equal(new[:, :first], old[:, :first])
    assert new.requires_grad == class_token
    images = noise(16)  # on which the source resamples its positions itself
    assert torch.allclose(target.eval()(images).embeddings, source.eval()(images).embeddings, atol=1e-5)


@torch.no_grad()
def test_a_class_token_that_carries_its_position_is_as_good_as_one_beside_it(tmp_path: Path) -> None:
    """timm's no_embed_class into DINO's layout."""
    source = timm_vit("vit_tiny_patch16_224", img_size=32, no_embed_class=True)
    target = vit(image_size=32, patch_size=16, depth=4, mlp_ratio=4.0).eval()
    randomised(source)
    start_from(target, saved(source.network.state_dict(), tmp_path))
    assert torch.allclose(target(noise(32)).embeddings, source(noise(32)).embeddings, atol=1e-5)


def test_all_that_does_not_fit_is_listed_and_nothing_is_changed(tmp_path: Path) -> None:
    tensors = dict(vit().network.state_dict())
    tensors["patch_embed.proj.weight"] = torch.ones(24, 3, 8, 8)
    tensors["strange.weight"] = tensors.pop("norm.weight")
    target = vit()
    before = {name: tensor.clone() for name, tensor in target.network.state_dict().items()}
    with pytest.raises(ConfigError) as caught:
        start_from(target, saved(tensors, tmp_path))
    for words in (
        "1 of its tensors are not used: strange.weight", "1 of the backbone's are not in it: norm.weight",
        "1 have another shape: patch_embed.proj.weight (24, 3, 8, 8) here (24, 3, 4, 4)",
        "try: the backbone.patch_size",
    ):  # fmt: skip
        assert words in str(caught.value)
    assert all(torch.equal(before[name], tensor) for name, tensor in target.network.state_dict().items())


@pytest.mark.parametrize(
    ("source", "target", "advice"),
    [
        ({}, {"class_token": False}, "backbone.class_token=true"),
        ({"class_token": False}, {}, "backbone.class_token=false"),
        ({"depth": 4}, {}, "the backbone.depth of the file"),
        ({"patch_size": 2}, {}, "the backbone.patch_size and width"),
    ],
)
def test_a_refusal_says_what_to_type(
    tmp_path: Path, source: dict[str, object], target: dict[str, object], advice: str
) -> None:
    with pytest.raises(ConfigError, match=f"of another network than the backbone: (.|\n)*try: .*{advice}"):
        start_from(vit(**target), saved(vit(**source).network.state_dict(), tmp_path))


def test_the_list_of_what_does_not_fit_is_whole_and_short() -> None:
    names = [f"blocks.{number}.norm.weight" for number in (0, 1, 2, 3, 7)] + ["norm.bias", "blocks.4.norm.bias"]
    assert collapsed(names) == ["blocks.0-3,7.norm.weight", "blocks.4.norm.bias", "norm.bias"]


def test_what_holds_no_weights_or_more_than_data_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return (os.mkdir, (str(tmp_path / "ran"),))

    for content, words in (
        ({"a": Evil(), **vit().network.state_dict()}, r"would run code of its author: posix\.mkdir"),
        ({"epoch": 3, "config": {}}, r"is no file of weights: it holds epoch \(int\), config \(dict\)"),
        ([torch.ones(2)], "holds a list, and weights are a dict"),
        ({}, "is no file of weights: it holds nothing"),
    ):
        with pytest.raises(CheckpointError, match=words):
            start_from(vit(), saved(content, tmp_path))
    assert not (tmp_path / "ran").exists()
    (tmp_path / "x.safetensors").write_bytes(b"no header at all")
    (tmp_path / "x.pth").write_bytes(b"no pickle")
    for name in ("x.safetensors", "x.pth", "nothing.pth"):
        with pytest.raises(
            CheckpointError,
            match=rf"=.*{name} (cannot be read|is no file of tensors|does not exist)",
        ):
            start_from(vit(), tmp_path / name)


def test_files_of_old_torch_are_read(tmp_path: Path) -> None:
    source, target = randomised(vit()), vit()
    start_from(target, saved(source.network.state_dict(), tmp_path, legacy=True))
    assert torch.equal(target.network.norm.weight, source.network.norm.weight)


def test_a_torchvision_file_without_counters_is_complete(tmp_path: Path) -> None:
    source = timm.create_model("resnet18")
    tensors = {name: tensor for name, tensor in source.state_dict().items() if "num_batches" not in name}
    target = ResNet(name="resnet18", stem="imagenet", zero_init_last=True, drop_path=0.0)
    fitted = start_from(target, saved(prefixed("module.", tensors), tmp_path))
    assert fitted.left_out == ["fc.weight", "fc.bias"]


@pytest.mark.parametrize(("method", "layout"), [*((method, "file") for method in METHODS), ("dino", "folder")])
def test_a_run_starts_from_the_evaluated_backbone_of_another_and_with_fresh_heads(
    tmp_path: Path, method: str, layout: str
) -> None:
    """Student and teacher alike; into another method, but for I-JEPA, whose networks have no class token."""
    left = leave_run(tmp_path / "run", method=method, layout=layout)
    evaluated = left.method.networks.teacher if method in ("dino", "ijepa") else left.method.networks.student
    expected = dict(evaluated.named_children()).get("backbone", evaluated).state_dict()
    into = "ijepa" if method == "ijepa" else "byol"
    torch.manual_seed(3)
    place = left.folder if layout == "folder" else left.checkpoint
    started = build_method(compose(into, tmp_path, f"backbone.init_from={place}"))
    for backbone in backbones(started):
        assert not [name for name, tensor in backbone.state_dict().items() if not torch.equal(tensor, expected[name])]
    torch.manual_seed(3)
    fresh = build_method(compose(into, tmp_path)).state_dict()
    heads = {name: tensor for name, tensor in fresh.items() if ".network." not in name}
    assert heads
    assert not [name for name, tensor in heads.items() if not torch.equal(tensor, started.state_dict()[name])]


def test_a_run_starts_from_an_export(tmp_path: Path) -> None:
    left = leave_run(tmp_path / "run", method="dino")
    evaluated = Evaluated(left.folder, checkpoint="last", packages=())
    file, _ = export_backbone(evaluated, format="safetensors", output=None, verify=False)
    started = build_method(compose("simclr", tmp_path, f"backbone.init_from={file}"))
    expected = safetensors.torch.load_file(file)
    (backbone,) = backbones(started)
    assert all(torch.equal(expected[name], tensor) for name, tensor in backbone.network.state_dict().items())


def test_a_backbone_is_built_from_a_config_that_still_refers_to_its_other_parts() -> None:
    """As train.py has it."""
    options = {"name": "vit_tiny_patch16_224", "pretrained": False, "drop_path": 0.0}
    node = {
        "_target_": "spt.backbones.timm_model.timm_backbone",
        "options": {"img_size": "${views.global_size}", "depth": 1},
        "init_from": None, "freeze_steps": None, **options,
    }  # fmt: skip
    backbone = build_backbone(OmegaConf.create({"views": {"global_size": 48}, "backbone": node}))
    assert backbone.recipe().arguments["img_size"] == 48


def test_the_command_line_refuses_weights_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"backbone\.init_from=nowhere\.pth is no file or folder of this machine\."):
        compose("dino", tmp_path, "backbone.init_from=nowhere.pth")
    with pytest.raises(ConfigError, match="and nothing is downloaded"):
        compose("dino", tmp_path, "backbone.init_from='https://example.org/dino.pth'")


def test_a_resumed_run_needs_the_weights_no_more_and_freezes_on(tmp_path: Path) -> None:
    """Four of six steps frozen, resumed after two: equal to the uninterrupted run to the bit."""
    start = vit(embed_dim=16, depth=1, mlp_ratio=4.0).network.state_dict()
    weights = saved(start, tmp_path)
    words = (f"backbone.init_from={weights}", "backbone.freeze_steps=4", "method.freeze_last_layer_epochs=0")
    middle = tmp_path / "middle.ckpt"
    whole = fit(build("dino", tmp_path / "whole", *words), Saver(2, middle))
    stored = open_checkpoint(middle)
    kept = {name: tensor for name, tensor in stored.read_weights(stored.weights).items() if ".network." in name}
    assert len(kept) == 2 * len(start)
    assert not [name for name, tensor in kept.items() if not torch.equal(tensor, start[name.rpartition("network.")[2]])]
    weights.unlink()
    resumed = fit(build("dino", tmp_path / "resumed", *words, f"resume={middle}"))
    expected, found = state(whole), state(resumed)
    assert not [name for name in expected if not torch.equal(expected[name], found[name])]
    (qkv,) = [name for name in expected if name.endswith("qkv.weight") and "student" in name]
    assert not torch.equal(expected[qkv], start[qkv.rpartition("network.")[2]])  # moved in the last two steps
