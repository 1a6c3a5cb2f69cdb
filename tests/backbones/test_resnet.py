"""ResNets and their stems."""

from __future__ import annotations

import timm
import torch

from spt.backbones.resnet import ResNet


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


def test_weights_load_into_timm_with_nothing_missing() -> None:
    timm.create_model("resnet18", num_classes=0).load_state_dict(resnet().network.state_dict(), strict=True)
