"""What a masked method sees, and what it must predict."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from spt.pictures.painter import BatchPainter, Colors, Drawing
from spt.pictures.sheet import Column, Images, draw_sheet
from spt.types import Batch, Masks

# n images shown, M target blocks, N tokens, S view size, G patches a side

_SHOWN_TARGETS = 6
_LEFT = 0.2  # share of the image that shows through a mask
_COVER = np.array([0.35, 0.5, 0.75], dtype=np.float32)  # blue: black would not show on black, nor grey on grey


class MasksPainter(BatchPainter):
    """plots/masks.png: the view, its context and its target blocks, what each leaves out covered in blue.

    Args:
        num_images: rows, at most.
        patch_size: pixels of a token's side; None for networks without tokens.
    """

    def __init__(self, *, num_images: int, patch_size: int | None) -> None:
        self.num_images = num_images
        self.patch_size = patch_size

    def paint(self, batch: Batch, colors: Colors) -> Drawing | None:
        """The first images of the micro-batch; None for methods without masks."""
        if batch.masks is None or self.patch_size is None:
            return None
        images = colors.pixels(batch.global_views[0][: self.num_images])
        return partial(_draw, [Column("view", images), *masked(images, batch.masks, self.patch_size)])


def masked(images: Images, masks: Masks, patch_size: int) -> list[Column]:
    """The images under their context and under each target block."""
    named = {f"context\n{masks.context.shape[1]} tokens": masks.context}
    for number, block in enumerate(masks.targets[:_SHOWN_TARGETS], 1):
        named[f"target {number}\n{block.shape[1]} tokens"] = block
    covered = images * _LEFT + _COVER * (1 - _LEFT)
    columns = []
    for head, tokens in named.items():
        pixels = visible(tokens[: len(images)], images.shape[1], patch_size)
        columns.append(Column(head, np.where(pixels[..., None], images, covered)))
    return columns


def visible(tokens: Tensor, size: int, patch_size: int) -> NDArray[np.bool_]:
    """[n, N_kept] token positions in raster order -> [n, S, S]: the pixels that they cover."""
    side = size // patch_size
    grid = torch.zeros(len(tokens), side * side, dtype=torch.bool).scatter_(1, tokens.cpu(), True)  # [n, G * G]
    pixels = grid.view(-1, side, side).repeat_interleave(patch_size, 1).repeat_interleave(patch_size, 2)  # [n, S, S]
    return pixels.numpy()


def _draw(columns: list[Column], when: str) -> Figure:
    return draw_sheet(f"context that the student sees and blocks that it predicts, {when}", columns)
