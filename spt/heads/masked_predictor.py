"""I-JEPA's predictor: from the tokens of a context to the tokens of hidden blocks."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from spt.backbones.positions import sincos_positions
from spt.backbones.selective import SelectiveBlock
from spt.config.errors import ConfigError

# B images, M target blocks, N tokens, D embedding, P width of the predictor

_layer_norm = partial(nn.LayerNorm, eps=1e-6)


class MaskedPredictor(nn.Module):
    """A narrow transformer that fills in one target block a sequence.

    Args:
        embed_dim: D, of the tokens that come in and go out.
        num_heads: heads of each block; the authors take the encoder's (helper.py:79).
        grid: rows and columns of patches.
        predictor_dim: P.
        depth: number of blocks.

    Blocks of different targets do not see each other: [context ; targets of one block] is a sequence of its own.
    Source: ijepa vision_transformer.py:205-326; arXiv 2301.08243, section 3 and appendix A.
    """

    positions: Tensor

    def __init__(
        self, *, embed_dim: int, num_heads: int, grid: tuple[int, int], predictor_dim: int, depth: int
    ) -> None:
        super().__init__()
        if predictor_dim % num_heads:
            raise ConfigError(
                f"method.predictor.predictor_dim={predictor_dim} is no multiple of the {num_heads} heads that the "
                "predictor shares with the backbone; "
                f"use method.predictor.predictor_dim={max(1, predictor_dim // num_heads) * num_heads}."
            )
        self.inward = nn.Linear(embed_dim, predictor_dim)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, predictor_dim))
        blocks = [
            SelectiveBlock(predictor_dim, num_heads, mlp_ratio=4.0, qkv_bias=True, norm_layer=_layer_norm)  # type: ignore[arg-type]
            for _ in range(depth)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.norm = _layer_norm(predictor_dim)
        self.outward = nn.Linear(predictor_dim, embed_dim)
        self.register_buffer("positions", sincos_positions(predictor_dim, *grid), persistent=False)  # [N, P]
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        nn.init.trunc_normal_(self.mask_token, std=0.02)

    def forward(self, tokens: Tensor, context: Tensor, targets: Tensor) -> Tensor:
        """Predicted tokens of the target blocks.

        Args:
            tokens: [B, N_context, D], the student's.
            context: [B, N_context], their positions in raster order of the grid.
            targets: [M, B, N_target], positions to predict.

        Returns:
            [M, B, N_target, D].
        """
        num_blocks, _, num_targets = targets.shape
        positions = self.positions.to(tokens.dtype)
        seen = self.inward(tokens) + positions[context]  # [B, N_context, P]
        hidden = self.mask_token + positions[targets]  # [M, B, N_target, P]
        sequences = torch.cat([seen.expand(num_blocks, -1, -1, -1), hidden], dim=2).flatten(0, 1)  # [MB, N, P]
        *earlier, last = self.blocks
        for block in earlier:
            sequences = block(sequences)
        # nobody reads what the last one would make of the context
        predicted = self.norm(last(sequences, rows=slice(-num_targets, None)))  # [MB, N_target, P]
        # a copy, not a view: fully_shard hangs its hooks on what comes out
        return torch.stack(self.outward(predicted).chunk(num_blocks))  # [M, B, N_target, D]
