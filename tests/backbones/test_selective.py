"""Blocks that give some of their tokens only, and backbones that give embeddings without tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from timm.layers import Attention, LayerNorm
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from spt.backbones.backbone import embeddings_of
from spt.backbones.selective import SelectiveBlock, make_selective
from spt.backbones.timm_model import timm_backbone
from tests.runs import build, fit

B, N, D = 3, 7, 16


class Other(Attention):
    """An attention that is not timm's own."""


def blocks(**options: object) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(D, 4, norm_layer=LayerNorm, **options) for _ in range(2)))


OPTIONS = {
    "plain": {},
    "biases": {"qkv_bias": True},
    "norms of queries and keys": {"qk_norm": True},
    "norms inside": {"scale_attn_norm": True, "scale_mlp_norm": True},
    "layer scale": {"init_values": 0.3},
    "drop-path": {"drop_path": 0.5},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("rows", [slice(0, 1), slice(-2, None), slice(1, 4)])
def test_chosen_rows_and_all_gradients_equal_those_of_timms_block(name: str, rows: slice) -> None:
    found: list[list[Tensor]] = []
    for is_chosen in (False, True):
        stack = blocks(**OPTIONS[name])
        if is_chosen:
            assert make_selective(stack)
        tokens = torch.randn(B, N, D, generator=torch.Generator().manual_seed(1)).requires_grad_()
        torch.manual_seed(2)  # of drop-path
        inner = stack[0](tokens)
        out = stack[1](inner, rows=rows) if is_chosen else stack[1](inner)[:, rows]
        assert out.shape == (B, len(range(N)[rows]), D)
        (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(3))).sum().backward()
        found.append([out, tokens.grad, *(parameter.grad for parameter in stack.parameters())])
    for whole, chosen in zip(*found, strict=True):
        assert torch.allclose(chosen, whole, atol=2e-6)


def test_names_of_weights_and_the_output_of_all_rows_stay_as_they_were() -> None:
    plain, selective = blocks(), blocks()
    assert make_selective(selective)
    assert {type(block) for block in selective} == {SelectiveBlock}  # sharding knows a stack by its one class
    assert list(plain.state_dict()) == list(selective.state_dict())
    tokens = torch.randn(B, N, D)
    assert torch.equal(plain(tokens), selective(tokens))


@pytest.mark.parametrize("attention", [Other, "diff"])
def test_blocks_with_another_attention_are_left_alone(attention: object) -> None:
    stack = nn.Sequential(Block(D, 4), Block(D, 4, attn_layer=attention))
    assert not make_selective(stack)
    assert {type(block) for block in stack} == {Block}


@pytest.mark.parametrize(
    ("name", "is_faster"),
    [("vit_tiny_patch16_224", True), ("deit3_small_patch16_224", True), ("vit_small_patch14_reg4_dinov2", True),
     ("vit_base_patch16_clip_224", True), ("vit_medium_patch16_gap_240", False), ("resnet10t", False)],
)  # fmt: skip
def test_embeddings_without_tokens_equal_those_with_tokens(name: str, is_faster: bool) -> None:
    size = 28 if "patch14" in name else 32
    options = {"img_size": size, "depth": 2, "embed_dim": 96, "num_heads": 3} if "patch" in name else {}
    backbone = timm_backbone(name=name, pretrained=False, drop_path=0.0, options=options).eval()
    images = torch.randn(2, 3, size, size)
    assert backbone.may_skip_tokens == is_faster
    assert torch.allclose(embeddings_of(backbone, images), backbone(images).embeddings, atol=2e-6)


@pytest.mark.parametrize("method", ["byol", "dino", "simclr"])
def test_the_last_block_of_a_run_spends_its_mlp_on_class_tokens_alone(method: str, tmp_path: Path) -> None:
    run = build(method, tmp_path, "probes=none", "backbone.depth=2")
    seen: dict[int, set[int]] = {0: set(), 1: set()}
    for network in (run.module.method.networks.student, run.module.method.networks.teacher):
        for place, block in enumerate(network.backbone.network.blocks):
            block.mlp.register_forward_pre_hook(lambda _, inputs, place=place: seen[place].add(inputs[0].shape[1]))
    fit(run)
    assert seen[1] == {1}
    assert min(seen[0]) > 1


def test_the_last_block_of_a_predictor_spends_its_mlp_on_targets_alone(tmp_path: Path) -> None:
    run = build("ijepa", tmp_path, "probes=none", "method.predictor.depth=2")
    rows: list[list[int]] = [[], []]
    for place, block in enumerate(run.module.method.predictor.blocks):
        block.mlp.register_forward_pre_hook(lambda _, inputs, place=place: rows[place].append(inputs[0].shape[1]))
    targets: list[int] = []
    run.module.method.predictor.register_forward_pre_hook(lambda _, inputs: targets.append(inputs[2].shape[-1]))
    fit(run)
    assert rows[1] == targets
    assert all(whole > last for whole, last in zip(*rows, strict=True))
