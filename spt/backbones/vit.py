"""Vision transformers of timm that give embeddings and tokens, take crops of any size, and compute kept tokens only."""

from __future__ import annotations

from typing import Literal, cast

import torch
from timm.models.vision_transformer import Block
from timm.models.vision_transformer import VisionTransformer as TimmVisionTransformer
from torch import Tensor, nn

from spt.backbones.backbone import TokenBackbone
from spt.backbones.positions import resample_positions, sincos_positions
from spt.backbones.recipe import Positions, TimmRecipe
from spt.backbones.selective import make_selective
from spt.config.errors import ConfigError
from spt.types import Features

# B images, N patches, D embedding


class TokenTransformer(TokenBackbone):
    """A timm VisionTransformer behind spt's protocols of embeddings and tokens.

    Args:
        network: as `recipe` builds it, whatever its weights.
        recipe: without regard to how timm pools.

    Attributes:
        network: the timm model; its state dict is what timm loads.
        may_skip_tokens: embeddings are class tokens, and the last block can do without the others.
    """

    network: TimmVisionTransformer

    def __init__(self, network: TimmVisionTransformer, recipe: TimmRecipe) -> None:
        super().__init__()
        self.network = network
        self._recipe = recipe
        self.network.patch_embed.strict_img_size = False  # crops of any size; the positions are resampled below
        self.embed_dim = cast(int, network.embed_dim)
        self.patch_size = int(network.patch_embed.patch_size[0])
        self.num_heads = cast(int, cast(Block, network.blocks[0]).attn.num_heads)
        self.reference_grid = network.patch_embed.grid_size
        self.may_skip_tokens = make_selective(network.blocks) and network.has_class_token

    def forward(self, images: Tensor, keep: Tensor | None = None, *, needs_tokens: bool = True) -> Features:
        """Features after the final norm.

        Args:
            images: [B, 3, H, W]; H and W multiples of patch_size.
            keep: [B, N_keep], int64, patches in raster order that are computed; all without it. Dropped patches cost
                nothing.
            needs_tokens: False leaves out what only tokens need, where `may_skip_tokens` says that this is possible.

        Returns:
            embeddings [B, D], the class token or, without one, the mean of the computed patches; tokens [B, N, D], or
            [B, N_keep, D], or None where they were left out.
        """
        network, tokens = self.network, self._embedded(images, keep)
        if needs_tokens or not self.may_skip_tokens:
            return self._features(network.norm(network.blocks(tokens)))
        *earlier, last = network.blocks
        for block in earlier:
            tokens = block(tokens)
        class_token = last(tokens, rows=slice(0, 1))[:, 0]  # [B, D]
        return Features(network.norm(class_token), None)

    def last_blocks(self, images: Tensor, num_blocks: int) -> list[Features]:
        """Features of each of the last blocks, each after the final norm; those of the last are what `forward` gives.

        Args:
            images: [B, 3, H, W]; H and W multiples of patch_size.
            num_blocks: from 1 to the depth.
        """
        tokens, features = self._embedded(images, None), []
        for left, block in zip(range(len(self.network.blocks), 0, -1), self.network.blocks, strict=True):
            tokens = block(tokens)
            if left <= num_blocks:
                features.append(self._features(self.network.norm(tokens)))
        return features

    def _embedded(self, images: Tensor, keep: Tensor | None) -> Tensor:
        """What the first block sees: prefix tokens and patches, with their positions."""
        network = self.network
        patches = network.patch_embed(images).reshape(len(images), -1, self.embed_dim)  # [B, N, D]
        prefix_positions, patch_positions = self._positions(images.shape[-2], images.shape[-1])
        patches = patches + patch_positions
        if keep is not None:
            patches = patches.gather(1, keep[..., None].expand(-1, -1, self.embed_dim))  # [B, N_keep, D]
        prefix: list[Tensor] = [token for token in (network.cls_token, network.reg_token) if token is not None]
        if prefix:
            patches = torch.cat([(torch.cat(prefix, 1) + prefix_positions).expand(len(images), -1, -1), patches], dim=1)
        return network.norm_pre(network.pos_drop(patches))

    def _features(self, tokens: Tensor) -> Features:
        num_prefix = self.network.num_prefix_tokens
        if not num_prefix:
            return Features(tokens.mean(1), tokens)
        embeddings = tokens[:, 0].clone() if self.network.has_class_token else tokens[:, num_prefix:].mean(1)
        return Features(embeddings, tokens[:, num_prefix:].contiguous())

    def recipe(self) -> TimmRecipe:
        """timm's network with the class token or, without one, the mean of the patches as its output.

        Raises:
            ConfigError: the network pools in a way of its own.
        """
        network = self.network
        if network.attn_pool is not None or not isinstance(network.fc_norm, nn.Identity):
            raise ConfigError(
                f"{self._recipe.name} pools its tokens by layers of its own, which this project does not train, so "
                "timm would give other embeddings; use a vision transformer with a class token."
            )
        pooling = "token" if network.has_class_token else "avg"
        arguments = {**self._recipe.arguments, "global_pool": pooling, "fc_norm": False}
        return self._recipe._replace(
            arguments=arguments,
            patch_size=self.patch_size,
            positions=None if network.pos_embed is None else Positions(self.num_position_prefix, self.reference_grid),
        ).at(self.reference_grid[0] * self.patch_size)

    def fix_positions(self) -> None:
        """Puts fixed two-dimensional sines and cosines in place of learned positions; zeros for prefix tokens.

        Raises:
            ConfigError: the width cannot hold them.
        """
        fixed = sincos_positions(self.embed_dim, *self.reference_grid)
        prefix = torch.zeros(self.num_position_prefix, self.embed_dim)
        self.network.pos_embed = nn.Parameter(torch.cat([prefix, fixed])[None], requires_grad=False)

    def initialise_patches(self, std: float) -> None:
        """Draws the patch convolution's weights from a truncated normal, as those of Linear layers; its bias is 0."""
        projection = cast(nn.Conv2d, self.network.patch_embed.proj)
        nn.init.trunc_normal_(projection.weight, std=std)
        if projection.bias is not None:
            nn.init.zeros_(projection.bias)

    @property
    def num_position_prefix(self) -> int:
        """Tokens before the patches that have a position."""
        return 0 if self.network.no_embed_class else int(self.network.num_prefix_tokens)

    def _positions(self, height: int, width: int) -> tuple[Tensor | float, Tensor | float]:
        """Position embeddings of the prefix tokens and of the patches of an image of that many pixels."""
        positions = self.network.pos_embed
        if positions is None:
            return 0.0, 0.0
        num_prefix = self.num_position_prefix
        grid = (height // self.patch_size, width // self.patch_size)
        patches = resample_positions(positions[:, num_prefix:], self.reference_grid, grid)
        return (positions[:, :num_prefix] if num_prefix else 0.0), patches


class VisionTransformer(TokenTransformer):
    """A plain pre-norm ViT (arXiv 2010.11929), initialised as DINO's and I-JEPA's codes initialise theirs.

    Args:
        image_size: pixels of the grid that position embeddings are made for; other sizes resample them.
        patch_size: pixels.
        embed_dim: D.
        depth: number of blocks.
        num_heads: heads of each block; divides embed_dim.
        mlp_ratio: hidden width of the MLPs over D.
        class_token: True: embeddings are the class token (DINO); False: the mean of the patches (I-JEPA).
        positions: "learned", or "sincos": fixed two-dimensional sines and cosines.
        init_std: standard deviation of the truncated normal that Linear weights, the class token and learned positions
            are drawn from. The papers' .02 suits widths from 384 up; in a narrow network it makes all images start out
            alike, and DINO's teacher cannot tell them apart.
        patch_embed_init: "default": torch's initialisation of the patch convolution (DINO); "truncated_normal": of
            init_std (I-JEPA).
        drop_path: rate at the last block, growing linearly from 0 at the first; the teacher has none.

    Raises:
        ConfigError: the heads do not divide the width, or the width cannot hold the positions.
    """

    def __init__(
        self, *, image_size: int, patch_size: int, embed_dim: int, depth: int, num_heads: int, mlp_ratio: float,
        class_token: bool, positions: Literal["learned", "sincos"], init_std: float,
        patch_embed_init: Literal["default", "truncated_normal"], drop_path: float,
    ) -> None:  # fmt: skip
        if embed_dim % num_heads:
            raise ConfigError(
                f"backbone.num_heads={num_heads} does not divide backbone.embed_dim={embed_dim}: heads are equal "
                f"shares of the width; use backbone.embed_dim={max(1, embed_dim // num_heads) * num_heads}."
            )
        arguments: dict[str, object] = {
            "img_size": image_size, "patch_size": patch_size, "embed_dim": embed_dim, "depth": depth,
            "num_heads": num_heads, "mlp_ratio": mlp_ratio, "class_token": class_token,
            "global_pool": "token" if class_token else "avg", "fc_norm": False, "num_classes": 0,
        }  # fmt: skip
        # of any plain ViT's name, timm builds the class with these arguments
        recipe = TimmRecipe("vit_base_patch16_224", arguments)
        network = TimmVisionTransformer(**arguments, drop_path_rate=drop_path)  # type: ignore[arg-type]
        super().__init__(network, recipe)
        _initialise(network, init_std)
        if patch_embed_init == "truncated_normal":
            self.initialise_patches(init_std)
        if positions == "sincos":
            self.fix_positions()


def _initialise(network: TimmVisionTransformer, std: float) -> None:
    """Truncated normal for every Linear, the class token and learned positions; biases 0, norms 1 and 0."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for embedding in (network.pos_embed, network.cls_token):
        if embedding is not None:
            nn.init.trunc_normal_(embedding, std=std)
