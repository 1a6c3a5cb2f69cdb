"""What a method may ask of a backbone."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from spt.types import Features


class Backbone(Protocol):
    """Images to embeddings: any network with these two."""

    embed_dim: int

    def __call__(self, images: Tensor) -> Features:
        """Embeddings [B, D] of images [B, 3, H, W]."""
        ...


class TokenBackbone(Protocol):
    """Images to embeddings and tokens, computing only the tokens that are kept."""

    embed_dim: int
    patch_size: int
    num_heads: int
    reference_grid: tuple[int, int]

    def __call__(self, images: Tensor, keep: Tensor | None = None) -> Features:
        """Embeddings [B, D] and tokens [B, N, D] of images [B, 3, H, W], of the patches `keep` [B, N_keep] only if given."""
        ...
