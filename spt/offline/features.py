"""Which numbers of a network stand for an image."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from spt.backbones.backbone import Backbone, embeddings_of
from spt.backbones.vit import TokenTransformer
from spt.config.errors import ConfigError
from spt.types import Features

# B images, N patches, D embedding, n blocks

_NAME = re.compile(r"(class|mean|class_mean)(\d+)")


class FeatureSet(NamedTuple):
    """One choice of layers.

    Attributes:
        name: embedding | class<n> | mean<n> | class_mean<n>.
        pool: what is taken of each block.
        num_blocks: n, counted from the last; 0 for the embedding.
    """

    name: str
    pool: str
    num_blocks: int


def parse_features(names: Sequence[str], backbone: Backbone) -> list[FeatureSet]:
    """The choices that names stand for.

    embedding: what the method evaluates. class<n>: the class tokens of the last n blocks, each after the final norm,
    side by side (DINO's eval_linear.py for ViT-S with n = 4). class_mean<n>: the same and the mean of the last block's
    patch tokens (DINO for ViT-B with n = 1, DINOv2). mean<n>: the means of the patch tokens of the last n blocks
    (I-JEPA with n = 4).

    Raises:
        ConfigError: a name that means nothing, or that this network cannot give.
    """
    return [_parse(name, backbone) for name in dict.fromkeys(names)]


def _parse(name: str, backbone: Backbone) -> FeatureSet:
    if name == "embedding":
        return FeatureSet(name, "embedding", 0)
    match = _NAME.fullmatch(name)
    if match is None or int(match.group(2)) < 1:
        raise ConfigError(f"features={name} means nothing; use embedding, class4, mean4 or class_mean4.")
    if not isinstance(backbone, TokenTransformer):
        raise ConfigError(
            f"features={name} takes tokens of blocks, and {type(backbone).__name__} gives none; use features=embedding."
        )
    pool, num_blocks = match.group(1), int(match.group(2))
    depth = len(backbone.network.blocks)
    if num_blocks > depth:
        raise ConfigError(f"features={name} asks for {num_blocks} blocks of {depth}; use features={pool}{depth}.")
    if pool != "mean" and not backbone.network.has_class_token:
        raise ConfigError(
            f"features={name} takes class tokens, and this network has none; use features=mean{num_blocks}."
        )
    return FeatureSet(name, pool, num_blocks)


def compute_features(backbone: Backbone, images: Tensor, sets: Sequence[FeatureSet]) -> dict[str, Tensor]:
    """Every choice of layers from one forward.

    Args:
        backbone: in evaluation mode.
        images: [B, 3, S, S], normalised.
        sets: at least one.

    Returns:
        [B, D of the choice] by name, float32.
    """
    deepest = max(wanted.num_blocks for wanted in sets)
    if deepest == 0 or not isinstance(backbone, TokenTransformer):
        embeddings = embeddings_of(backbone, images).float()  # [B, D]
        return {wanted.name: embeddings for wanted in sets}
    blocks = backbone.last_blocks(images, deepest)
    return {wanted.name: _pooled(wanted, blocks) for wanted in sets}


def _pooled(wanted: FeatureSet, blocks: list[Features]) -> Tensor:
    chosen = blocks[-max(wanted.num_blocks, 1) :]
    if wanted.pool == "mean":
        return torch.cat([_mean_token(block) for block in chosen], dim=1)  # [B, n D]
    columns = [block.embeddings.float() for block in chosen]  # class tokens, where there are any
    if wanted.pool == "class_mean":
        columns.append(_mean_token(blocks[-1]))
    return torch.cat(columns, dim=1)  # [B, n D] or [B, (n + 1) D]


def _mean_token(block: Features) -> Tensor:
    assert block.tokens is not None, "blocks are a transformer's"
    return block.tokens.float().mean(1)  # [B, D]
