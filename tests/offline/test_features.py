"""Features of blocks against timm's own, from every kind of source."""

from __future__ import annotations

from pathlib import Path

import pytest
import timm
import torch
from torch import Tensor

from spt.backbones.backbone import Backbone
from spt.backbones.timm_model import timm_backbone
from spt.config.errors import ConfigError
from spt.config.evaluated import read_source
from spt.export.evaluated import Evaluated
from spt.export.export import export_backbone
from spt.offline.features import compute_features, parse_features
from spt.offline.network import open_network
from tests.offline.runs import trained

NAMES = ["embedding", "class1", "class3", "mean2", "class_mean2"]


def vit(**options: object) -> Backbone:
    small: dict[str, object] = {"img_size": 32, "depth": 4, "embed_dim": 12, "num_heads": 2, **options}
    return timm_backbone(name="vit_tiny_patch16_224", pretrained=False, drop_path=0.0, options=small).eval()


@torch.no_grad()
def test_layers_are_those_of_timms_own_intermediate_outputs() -> None:
    backbone, images = vit(), torch.randn(3, 3, 32, 32)
    network = backbone.network
    outputs = network.forward_intermediates(  # type: ignore[operator]
        images, indices=4, return_prefix_tokens=True, norm=True, output_fmt="NLC", intermediates_only=True
    )
    means: list[Tensor] = [patches.mean(1) for patches, _ in outputs]
    classes: list[Tensor] = [prefix[:, 0] for _, prefix in outputs]
    expected = {
        "embedding": classes[3],
        "class1": classes[3],
        "class3": torch.cat(classes[1:], dim=1),
        "mean2": torch.cat(means[2:], dim=1),
        "class_mean2": torch.cat([*classes[2:], means[3]], dim=1),
    }
    found = compute_features(backbone, images, parse_features(NAMES, backbone))
    assert found.keys() == expected.keys()
    for name, columns in expected.items():
        torch.testing.assert_close(found[name], columns, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "backbone", "advice"),
    [
        ("clas4", vit(), "use embedding, class4"),
        ("class0", vit(), "use embedding, class4"),
        ("mean5", vit(), "features=mean4"),
        ("class2", vit(class_token=False, global_pool="avg"), "features=mean2"),
        (
            "mean1",
            timm_backbone(name="resnet18", pretrained=False, drop_path=0.0, options={}),
            "features=embedding",
        ),
    ],
)
def test_layers_that_a_network_does_not_have_are_refused(name: str, backbone: Backbone, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        parse_features([name], backbone)


@torch.no_grad()
def embed(source: object) -> Tensor:
    network = open_network(read_source(str(source)), checkpoint="last", pretrained=False, packages=[])
    assert not network.backbone.training
    images = torch.randn(5, 3, network.inputs.size, network.inputs.size, generator=torch.Generator().manual_seed(1))
    features: Tensor = network.backbone(images).embeddings
    return features


@pytest.mark.parametrize("shape", ["file", "folder"])
def test_a_run_and_its_export_are_the_same_network_with_the_same_images(tmp_path: Path, shape: str) -> None:
    folder = trained()
    evaluated = Evaluated(folder, checkpoint="last", packages=[])
    kind, name = ("safetensors", "exported.safetensors") if shape == "file" else ("timm", "exported")
    export_backbone(evaluated, format=kind, output=tmp_path / name, verify=False)
    torch.testing.assert_close(embed(tmp_path / name), embed(folder), atol=1e-5, rtol=1e-5)
    opened = [
        open_network(read_source(str(source)), checkpoint="last", pretrained=False, packages=[])
        for source in (tmp_path / name, folder)
    ]
    assert opened[0].inputs == opened[1].inputs
    assert opened[0].step == opened[1].step == 4
    assert read_source(str(tmp_path / name)).data == "digits"


def test_a_timm_name_is_shown_images_as_timm_evaluates_it() -> None:
    network = open_network(read_source("timm:vit_tiny_patch16_224"), checkpoint="last", pretrained=False, packages=[])
    config = timm.get_pretrained_cfg("vit_tiny_patch16_224")
    assert config is not None
    assert network.inputs.size == 224
    assert network.inputs.crop == config.crop_pct
    assert tuple(network.inputs.mean) == tuple(config.mean)


def test_an_export_without_a_header_is_refused(tmp_path: Path) -> None:
    import safetensors.torch

    safetensors.torch.save_file({"weight": torch.zeros(2)}, tmp_path / "bare.safetensors")
    with pytest.raises(ConfigError, match=r"scripts/export_backbone\.py"):
        read_source(str(tmp_path / "bare.safetensors"))
