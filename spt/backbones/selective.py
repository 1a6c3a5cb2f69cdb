"""Transformer blocks that compute only the rows of their output that somebody reads."""

from __future__ import annotations

from typing import cast

import torch.nn.functional as F
from timm.layers import Attention
from timm.models.vision_transformer import Block
from torch import Tensor, nn

# B images, N tokens, R tokens that are read, D embedding, H heads


class SelectiveBlock(Block):
    """timm's block, which may be asked for some of its tokens.

    Of the last block of a network often one token is read, the class token, and three quarters of the block are
    spent on the others: their projection and their MLP. What is left out changes nothing: tokens meet in the
    attention alone, which has the keys and values of all of them.
    """

    def forward(self, x: Tensor, *args: object, rows: slice | None = None, **named: object) -> Tensor:
        """The block's output for the tokens in `rows`, all of them without it.

        Args:
            x: [B, N, D].
            rows: R neighbours of the N.
            args: further arguments of timm's block, as are `named`; none beside `rows`.

        Returns:
            [B, R, D].
        """
        if rows is None:
            return cast(Tensor, super().forward(x, *args, **named))  # type: ignore[arg-type]
        read = x[:, rows] + self.drop_path1(self.ls1(self._attended(self.norm1(x), rows)))
        return cast(Tensor, read + self.drop_path2(self.ls2(self.mlp(self.norm2(read)))))

    def _attended(self, x: Tensor, rows: slice) -> Tensor:
        """What timm's attention gives for the rows: [B, N, D] to [B, R, D]."""
        attention = cast(Attention, self.attn)
        # one product for all, though queries of the rows would do: a part of its weights is nothing that ZeRO-3 gathers
        queries, keys, values = (
            attention.qkv(x).unflatten(-1, (3, attention.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        )  # [B, H, N, D / H]
        queries, keys = attention.q_norm(queries[:, :, rows]), attention.k_norm(keys)
        dropout = attention.attn_drop.p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout, scale=attention.scale)
        joined = attention.norm(mixed.transpose(1, 2).flatten(2))  # [B, R, D]
        return cast(Tensor, attention.proj_drop(attention.proj(joined)))


def make_selective(blocks: nn.Sequential) -> bool:
    """Lets every one of a network's blocks leave rows out; False, and nothing is changed, if one is not timm's own."""
    if not all(_is_plain(block) for block in blocks):
        return False
    for block in blocks:
        block.__class__ = SelectiveBlock  # all: sharding knows a stack by its one class
    return True


def _is_plain(block: nn.Module) -> bool:
    if type(block) is not Block:
        return type(block) is SelectiveBlock
    return type(block.attn) is Attention and getattr(block.attn, "gate", None) is None
