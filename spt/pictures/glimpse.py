"""Tokens and attention of the network that a method evaluates, seen from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from timm.layers import Attention
from torch import Tensor, nn

from spt.backbones.backbone import TokenBackbone
from spt.backbones.vit import TokenTransformer
from spt.method import Method
from spt.types import Features

# n images, N patches, D embedding, H heads, T tokens (class token, registers and patches), d dimensions of a head


class Glimpse(NamedTuple):
    """What a network made of images on its way to their embeddings.

    Attributes:
        tokens: [n, N, D], float32, after the final norm; None for backbones without tokens.
        attention: [n, H, N], float32, how much the class token looks at each patch in the last block; what it spends on
            itself and on registers is left out, so sums are below 1. None for networks without a class token.
    """

    tokens: Tensor | None
    attention: Tensor | None


@torch.no_grad()
def glimpse(method: Method, images: Tensor) -> Glimpse:
    """One call of `method.embed`, watched by hooks: the networks stay as they are, and shards are gathered as ever.

    Args:
        method: in eval mode.
        images: [n, 3, S, S], normalised; under fully_shard all processes call this.
    """
    seen: dict[str, Tensor] = {}
    backbones = [module for module in method.modules() if isinstance(module, TokenBackbone)]
    skipping = [backbone for backbone in backbones if backbone.may_skip_tokens]
    handles = [backbone.register_forward_hook(_keep_tokens(seen)) for backbone in backbones]
    for backbone in backbones:
        attention = _last_attention(backbone)
        if attention is not None:
            # of student and teacher, the one that embed calls is heard: the evaluated one
            handles.append(attention.q_norm.register_forward_hook(_keep(seen, "queries")))
            handles.append(attention.k_norm.register_forward_hook(_keep(seen, "keys")))
    try:
        for backbone in skipping:
            backbone.may_skip_tokens = False  # embeddings alone are not enough this time
        method.embed(images)
    finally:
        for backbone in skipping:
            backbone.may_skip_tokens = True
        for handle in handles:
            handle.remove()
    tokens = seen["tokens"].float() if "tokens" in seen else None
    if tokens is None or "queries" not in seen:
        return Glimpse(tokens, None)
    return Glimpse(tokens, _class_attention(seen["queries"], seen["keys"], tokens.shape[1]))


def _class_attention(queries: Tensor, keys: Tensor, num_patches: int) -> Tensor:
    """[n, H, T, d] each -> [n, H, N]: the first row of softmax(queries keys^T / sqrt(d))."""
    logits = queries[:, :, :1].float() @ keys.float().transpose(-2, -1) * queries.shape[-1] ** -0.5  # [n, H, 1, T]
    return logits.softmax(-1)[:, :, 0, -num_patches:]


def _last_attention(backbone: TokenBackbone) -> Attention | None:
    """The attention of the last block; None without a class token, or where a block has none of timm's kind."""
    if not isinstance(backbone, TokenTransformer) or not backbone.network.has_class_token:
        return None
    attention = getattr(backbone.network.blocks[-1], "attn", None)
    return attention if isinstance(attention, Attention) else None


def _keep(seen: dict[str, Tensor], name: str) -> Callable[[nn.Module, object, Tensor], None]:
    def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
        seen[name] = output.detach()

    return hook


def _keep_tokens(seen: dict[str, Tensor]) -> Callable[[nn.Module, object, object], None]:
    def hook(module: nn.Module, inputs: object, output: object) -> None:
        tokens = cast(Features, output).tokens
        if tokens is not None:
            seen["tokens"] = tokens.detach()

    return hook
