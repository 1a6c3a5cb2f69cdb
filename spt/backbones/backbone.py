"""What a method may ask of a backbone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from spt.backbones.recipe import TimmRecipe
from spt.config.errors import ConfigError
from spt.types import Features


class Backbone(nn.Module, ABC):
    """Images to embeddings.

    The weights of a backbone are those of a timm model, `network`, and of nothing else: so any of them can be exported,
    and can start from a file. The class attributes are facts that the rules read without importing torch, so they must
    be literals.

    Attributes:
        gives_tokens: the backbone is a TokenBackbone.
        has_batch_norm: it holds BatchNorm.
        embed_dim: D.
        network: the timm model; its state dict is what timm loads.
        may_skip_tokens: `forward` takes needs_tokens=False, and then is faster and gives embeddings only.
    """

    gives_tokens: ClassVar[bool] = False
    has_batch_norm: ClassVar[bool] = False

    may_skip_tokens: bool = False
    embed_dim: int
    network: nn.Module

    @abstractmethod
    def forward(self, images: Tensor) -> Features:
        """Embeddings [B, D] of images [B, 3, H, W]."""

    def recipe(self) -> TimmRecipe:
        """How plain timm builds a network that takes the weights of `network` and gives the same embeddings.

        Raises:
            ConfigError: timm has none.
        """
        raise ConfigError(
            f"{type(self).__name__} does not say how plain timm builds its network, so its weights cannot be exported; "
            "give the class a `recipe`, as spt/backbones/resnet.py has one."
        )


def embeddings_of(backbone: nn.Module, images: Tensor) -> Tensor:
    """Embeddings [B, D] of images [B, 3, H, W], without computing what only tokens need.

    Args:
        backbone: a Backbone, or another module that gives Features.
    """
    is_faster = isinstance(backbone, Backbone) and backbone.may_skip_tokens
    features: Features = backbone(images, needs_tokens=False) if is_faster else backbone(images)
    return features.embeddings


class TokenBackbone(Backbone):
    """Images to embeddings and tokens, computing only the tokens that are kept.

    Attributes:
        patch_size: pixels; every image's sides must be multiples of it.
        num_heads: attention heads of a block.
        reference_grid: rows and columns of patches that position embeddings are made for.
    """

    gives_tokens: ClassVar[bool] = True

    patch_size: int
    num_heads: int
    reference_grid: tuple[int, int]

    @abstractmethod
    def forward(self, images: Tensor, keep: Tensor | None = None) -> Features:
        """Embeddings [B, D] and tokens of images [B, 3, H, W].

        Args:
            keep: [B, N_keep], int64, patches in raster order that are computed; all N without it. Dropped patches
                cost nothing.
        """
