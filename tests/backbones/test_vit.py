"""ViTs: crops of any size, kept tokens, initialisation."""

from __future__ import annotations

import pytest
import timm
import torch
from torch import Tensor, nn

from spt.backbones.positions import sincos_positions
from spt.backbones.timm_model import PooledBackbone, timm_backbone
from spt.backbones.vit import TokenTransformer, VisionTransformer
from spt.config.errors import ConfigError


def vit(**changes: object) -> VisionTransformer:
    torch.manual_seed(0)
    sizes = {
        "image_size": 12, "patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_ratio": 2.0,
        "class_token": True,
        "positions": "learned", "init_std": 0.02, "patch_embed_init": "default", "drop_path": 0.0,
    }  # fmt: skip
    return VisionTransformer(**{**sizes, **changes})


@pytest.mark.parametrize("class_token", [True, False])
@pytest.mark.parametrize(("height", "width"), [(12, 12), (8, 8), (20, 8)])
def test_crops_of_any_size_give_an_embedding_and_a_token_a_patch(class_token: bool, height: int, width: int) -> None:
    """Trap 76."""
    embeddings, tokens = vit(class_token=class_token)(torch.randn(3, 3, height, width))
    assert embeddings.shape == (3, 16)
    assert tokens.shape == (3, height * width // 16, 16)


@pytest.mark.parametrize("class_token", [True, False])
def test_output_equals_timms_own_forward(class_token: bool) -> None:
    network, images = vit(class_token=class_token).eval(), torch.randn(3, 3, 12, 12)
    theirs = network.network.forward_features(images)
    ours = network(images)
    assert torch.allclose(ours.tokens, theirs[:, network.network.num_prefix_tokens :], atol=1e-6)
    assert torch.allclose(ours.embeddings, theirs[:, 0] if class_token else theirs.mean(1), atol=1e-6)


def test_dropped_tokens_are_never_computed() -> None:
    """Trap 79: the first block sees the kept tokens only."""
    network = vit(class_token=False)
    seen: list[int] = []
    network.network.blocks[0].register_forward_pre_hook(lambda block, inputs: seen.append(inputs[0].shape[1]))
    keep = torch.tensor([[0, 4], [8, 1], [2, 3]])
    _, tokens = network(torch.randn(3, 3, 12, 12), keep=keep)
    assert seen == [2]
    assert tokens.shape == (3, 2, 16)


def test_keeping_all_tokens_in_another_order_gives_the_same_tokens_in_that_order() -> None:
    network, images = vit(class_token=False), torch.randn(2, 3, 12, 12)
    order = torch.randperm(9)
    assert torch.allclose(network(images, keep=order.expand(2, -1)).tokens, network(images).tokens[:, order], atol=1e-5)


def test_kept_tokens_carry_the_positions_of_where_they_were() -> None:
    network = vit(class_token=False, positions="sincos")
    blank = torch.zeros(1, 3, 12, 12)
    first, last = (network(blank, keep=torch.tensor([[place]])).tokens for place in (0, 8))
    assert not torch.allclose(first, last)


def test_sincos_positions_are_fixed() -> None:
    """Trap 58."""
    assert not vit(positions="sincos").network.pos_embed.requires_grad
    assert vit(positions="learned").network.pos_embed.requires_grad


def test_initialisation_is_the_authors() -> None:
    """Trap 26: truncated normal of std .02, biases 0, LayerNorm 1 and 0, eps 1e-6."""
    network = vit(embed_dim=192, num_heads=3, patch_embed_init="truncated_normal").network
    for module in network.modules():
        if isinstance(module, nn.Linear):
            assert abs(module.weight.std().item() - 0.02) < 0.001
            assert module.bias.abs().max() == 0
        if isinstance(module, nn.LayerNorm):
            assert module.eps == 1e-6
    assert abs(network.patch_embed.proj.weight.std().item() - 0.02) < 0.002
    assert abs(network.pos_embed.std().item() - 0.02) < 0.003
    assert 0.01 < network.cls_token.std().item() < 0.03


def test_patch_convolution_keeps_torchs_initialisation_by_default() -> None:
    weight = vit(embed_dim=192, num_heads=3).network.patch_embed.proj.weight
    assert abs(weight.std().item() - (3 * 48) ** -0.5) < 0.004  # uniform within 1 / sqrt(fan in)


def test_drop_path_grows_from_zero_at_the_first_block() -> None:
    blocks = vit(depth=3, drop_path=0.1).network.blocks
    assert [getattr(block.drop_path1, "drop_prob", 0.0) for block in blocks] == pytest.approx([0.0, 0.05, 0.1])


def test_weights_load_into_timm_with_nothing_missing() -> None:
    plain = timm.create_model("vit_tiny_patch16_224", num_classes=0)
    ours = vit(image_size=224, patch_size=16, embed_dim=192, depth=12, num_heads=3, mlp_ratio=4.0)
    plain.load_state_dict(ours.network.state_dict(), strict=True)
    images = torch.randn(1, 3, 224, 224)
    assert torch.allclose(plain.eval()(images), ours.eval()(images).embeddings, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "gives_tokens"),
    [
        ("vit_tiny_patch16_224", {"img_size": 32, "depth": 2}, True),
        ("deit_tiny_patch16_224", {"img_size": 32, "depth": 2}, True),
        ("vit_base_patch16_clip_224", {"img_size": 32, "depth": 1, "embed_dim": 96}, True),
        ("vit_small_patch14_reg4_dinov2", {"img_size": 28, "depth": 1}, True),
        ("resnet10t", {}, False),
        ("convnext_atto", {}, False),
    ],
)
def test_any_timm_name_is_a_backbone(name: str, options: dict[str, object], gives_tokens: bool) -> None:
    backbone = timm_backbone(name=name, pretrained=False, drop_path=0.0, options=options)
    assert isinstance(backbone, TokenTransformer if gives_tokens else PooledBackbone)
    side = 56 if "dinov2" in name else 64
    embeddings, tokens = backbone.eval()(torch.randn(2, 3, side, side))
    assert embeddings.shape == (2, backbone.embed_dim)
    assert (tokens is not None) == gives_tokens


@pytest.mark.parametrize("name", ["deit3_small_patch16_224", "vit_small_patch14_reg4_dinov2"])
def test_register_and_class_tokens_equal_timms_own_forward(name: str) -> None:
    size = 28 if "patch14" in name else 32
    backbone = timm_backbone(name=name, pretrained=False, drop_path=0.0, options={"img_size": size, "depth": 2}).eval()
    images = torch.randn(2, 3, size, size)
    theirs: Tensor = backbone.network.forward_features(images)
    assert torch.allclose(backbone(images).embeddings, theirs[:, 0], atol=1e-5)
    assert torch.allclose(backbone(images).tokens, theirs[:, backbone.network.num_prefix_tokens :], atol=1e-5)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit3_small_patch16_224", "vit_base_patch16_clip_224"])
def test_a_timm_model_takes_the_form_that_i_jepa_asks_for(name: str) -> None:
    """Small patches, fixed positions, no class token; tokens are normalised before they are averaged."""
    backbone = timm_backbone(
        name=name, pretrained=False, drop_path=0.0, options={"img_size": 32, "depth": 1}, patch_size=4,
        class_token=False, positions="sincos", patch_embed_init="truncated_normal",
    )  # fmt: skip
    assert isinstance(backbone, TokenTransformer)
    assert (backbone.patch_size, backbone.reference_grid) == (4, (8, 8))
    positions = backbone.network.pos_embed
    assert not positions.requires_grad
    prefix = backbone.num_position_prefix
    assert torch.equal(positions[0, prefix:], sincos_positions(backbone.embed_dim, 8, 8))
    assert float(backbone.network.patch_embed.proj.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    embeddings, tokens = backbone.eval()(torch.randn(2, 3, 32, 32))
    assert torch.allclose(tokens.mean(2), torch.zeros(2, 64), atol=1e-5)
    if not backbone.network.num_prefix_tokens:
        assert torch.allclose(embeddings, tokens.mean(1))


@pytest.mark.parametrize("name", ["resnet10t", "swin_tiny_patch4_window7_224"])
def test_a_form_is_refused_by_models_that_are_no_plain_transformers(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}.*class_token.*backbone\.class_token=null"):
        timm_backbone(name=name, pretrained=False, drop_path=0.0, options={}, class_token=False)
    with pytest.raises(ConfigError, match=rf"{name}.*positions.*backbone\.positions=null"):
        timm_backbone(name=name, pretrained=False, drop_path=0.0, options={}, positions="sincos")


def test_a_form_and_weights_of_the_model_as_it_is_are_refused_together() -> None:
    with pytest.raises(ConfigError, match=r"backbone\.positions=null, or backbone\.pretrained=false"):
        timm_backbone(name="vit_tiny_patch16_224", pretrained=True, drop_path=0.0, options={}, positions="sincos")


def test_an_unknown_timm_name_is_refused_with_close_ones() -> None:
    with pytest.raises(ConfigError, match=r"backbone.name=resnet51 .*resnet"):
        timm_backbone(name="resnet51", pretrained=False, drop_path=0.0, options={})


def test_an_option_that_the_model_does_not_take_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"resnet10t.*img_sise.*backbone.options"):
        timm_backbone(name="resnet10t", pretrained=False, drop_path=0.0, options={"img_sise": 3})


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"backbone.num_heads=3 .*backbone.embed_dim=15"):
        vit(num_heads=3)
