"""Tokens and attention, seen from outside."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from timm.layers import Attention
from torch import Tensor, nn

from methods.simclr import SimCLR
from spt.backbones.backbone import embeddings_of
from spt.backbones.vit import TokenTransformer
from spt.heads.projection import SimCLRHead
from spt.method import Method
from spt.pictures.glimpse import glimpse
from spt.teacher_student import Branch
from tests.methods.batches import TinyConvNet
from tests.strategies.cases import METHODS, SIZE, build_method

# 3 images, 16 patches, 2 heads

IMAGES = torch.randn(3, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
WITH_CLASS_TOKEN = tuple(name for name in METHODS if name != "ijepa")


def method_of(name: str) -> Method:
    """In eval mode, its teacher another network than its student."""
    method = build_method(name).eval()
    if method.has_teacher:
        for parameter in method.networks.teacher.parameters():
            parameter.data.mul_(1.5)
    return method


def evaluated_backbone(method: Method) -> TokenTransformer:
    """The one whose embeddings are the method's."""
    networks = (method.networks.student, method.networks.teacher)
    backbones = [network.backbone if isinstance(network, Branch) else network for network in networks]
    with torch.no_grad():
        expected = method.embed(IMAGES)
        (found, *_) = [backbone for backbone in backbones if torch.equal(embeddings_of(backbone, IMAGES), expected)]
    assert isinstance(found, TokenTransformer)
    return found


@torch.no_grad()
def attention_of_timm(backbone: TokenTransformer) -> Tensor:
    """What timm multiplies the values of the last block with, [n, H, T, T], without its fused kernel."""
    kept: list[Tensor] = []
    block = backbone.network.blocks[-1].attn
    assert isinstance(block, Attention)
    block.fused_attn = False
    handle = block.attn_drop.register_forward_hook(lambda module, inputs, output: kept.append(output))
    backbone(IMAGES)
    handle.remove()
    return kept[0]


@pytest.mark.parametrize("name", METHODS)
def test_tokens_are_those_of_the_evaluated_network(name: str) -> None:
    method = method_of(name)
    with torch.no_grad():
        expected = evaluated_backbone(method)(IMAGES).tokens
    tokens = glimpse(method, IMAGES).tokens
    assert tokens is not None
    assert expected is not None
    assert torch.equal(tokens, expected)


@pytest.mark.parametrize("name", WITH_CLASS_TOKEN)
def test_attention_is_the_class_tokens_row_of_what_timm_computes(name: str) -> None:
    method = method_of(name)
    found = glimpse(method, IMAGES).attention
    assert found is not None
    assert found.shape == (3, 2, 16)
    whole = attention_of_timm(evaluated_backbone(method))
    torch.testing.assert_close(found, whole[:, :, 0, 1:])
    assert found.std() > 0.001  # not the same everywhere


def test_a_network_without_a_class_token_has_no_attention_to_show() -> None:
    assert glimpse(method_of("ijepa"), IMAGES).attention is None


def test_a_convolutional_network_has_nothing_to_show() -> None:
    head = partial(SimCLRHead, hidden_dim=11, output_dim=6, num_layers=2)
    method = SimCLR(TinyConvNet(), head=head, temperature=0.5).eval()  # type: ignore[arg-type]
    assert glimpse(method, IMAGES) == (None, None)


@pytest.mark.parametrize("name", METHODS)
def test_looking_leaves_networks_and_random_state_alone(name: str) -> None:
    method = method_of(name)
    before, random_state = {k: v.clone() for k, v in method.state_dict().items()}, torch.get_rng_state()
    glimpse(method, IMAGES)
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert not [module for module in method.modules() if _hooks(module)]
    assert all(parameter.grad is None for parameter in method.parameters())


def _hooks(module: nn.Module) -> int:
    return len(module._forward_hooks)
