"""ResNets and their stems."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import timm
import torch
from torch import nn

from spt.backbones.backbone import Backbone
from spt.backbones.resnet import ResNet
from spt.backbones.timm_model import timm_backbone
from spt.config.errors import ConfigError

REGNET = {"name": "regnetx_002", "pretrained": False, "drop_path": 0.0, "options": {}}


def resnet(**changes: object) -> ResNet:
    return ResNet(**{"name": "resnet18", "stem": "imagenet", "zero_init_last": True, "drop_path": 0.0, **changes})


def test_embedding_is_the_average_of_the_last_feature_map() -> None:
    backbone, images = resnet().eval(), torch.randn(2, 3, 64, 64)
    embeddings, tokens = backbone(images)
    assert torch.allclose(embeddings, backbone.network.forward_features(images).mean((2, 3)), atol=1e-6)
    assert embeddings.shape == (2, backbone.embed_dim)
    assert tokens is None


def test_the_stem_for_small_images_keeps_their_resolution() -> None:
    sizes = {}
    for stem in ("imagenet", "cifar"):
        backbone = resnet(stem=stem)
        backbone.network.layer1.register_forward_pre_hook(
            lambda m, inputs, stem=stem: sizes.update({stem: inputs[0].shape[-1]})
        )
        backbone(torch.randn(2, 3, 32, 32))
    assert sizes == {"imagenet": 8, "cifar": 32}


def test_residual_blocks_start_as_the_identity_only_when_asked() -> None:
    assert resnet().network.layer1[0].bn2.weight.abs().max() == 0
    assert resnet(zero_init_last=False).network.layer1[0].bn2.weight.min() == 1


@pytest.mark.parametrize("build", [resnet, lambda **words: timm_backbone(**REGNET, **words)])
def test_every_convolution_works_in_the_memory_format_and_gives_the_same(build: Callable[..., Backbone]) -> None:
    """A layer between that makes its output contiguous would undo it unseen."""
    torch.manual_seed(0)
    images, outputs = torch.randn(2, 3, 64, 64), {}
    plain = build(memory_format="contiguous").eval()
    for word in ("contiguous", "channels_last"):
        backbone = build(memory_format=word).eval()
        backbone.load_state_dict(plain.state_dict())
        is_last: list[bool] = []
        for module in backbone.modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_hook(
                    lambda module, inputs, output, seen=is_last: seen.append(
                        output.is_contiguous(memory_format=torch.channels_last) and not output.is_contiguous()
                    )
                )
        outputs[word] = backbone(images).embeddings
        maps = [seen for seen in is_last if seen]
        assert len(maps) > len(is_last) / 2 if word == "channels_last" else not maps  # maps of 1 x 1 are both
    assert torch.allclose(outputs["contiguous"], outputs["channels_last"], atol=1e-4)


def test_an_unknown_memory_format_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"memory_format=nhwc .*=auto\|channels_last\|contiguous"):
        resnet(memory_format="nhwc")


def test_weights_load_into_timm_with_nothing_missing() -> None:
    timm.create_model("resnet18", num_classes=0).load_state_dict(resnet().network.state_dict(), strict=True)
