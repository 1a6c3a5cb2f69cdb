"""What the class token looks at."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from torch import Tensor

from spt.pictures.evaluation import Evaluation
from spt.pictures.painter import Colors, Drawing, EvaluationPainter
from spt.pictures.sheet import Column, Images, draw_sheet

# n images shown, H heads, N patches, G patches a side


class AttentionPainter(EvaluationPainter):
    """plots/attention.png: attention of the class token to the patches in the last block of the evaluated network.

    A row an image; the mean over heads, then each head. Every map is scaled to its own maximum.

    Args:
        num_heads: heads that are shown, at most, the first ones.

    Paper: DINO, arXiv 2104.14294, figures 1 and 3.
    """

    def __init__(self, *, num_heads: int) -> None:
        self.num_heads = num_heads

    def paint(self, evaluation: Evaluation, colors: Colors) -> Drawing | None:
        """The validation images that are shown; None for networks without a class token."""
        attention = evaluation.glimpse.attention
        if attention is None:
            return None
        heads = attention[:, : self.num_heads].unbind(1)
        columns = [
            Column("image", colors.pixels(evaluation.view)),
            Column("mean of heads", heat(attention.mean(1))),
            *(Column(f"head {number}", heat(head)) for number, head in enumerate(heads, 1)),
        ]
        return partial(_draw, columns)


def heat(weights: Tensor) -> Images:
    """[n, N] in raster order, >= 0 -> [n, G, G, 3]: black for 0, bright for the greatest of an image."""
    side = round(weights.shape[1] ** 0.5)
    maps = (weights / weights.amax(1, keepdim=True)).view(-1, side, side).cpu().numpy()
    return colormaps["inferno"](maps)[..., :3].astype(np.float32)


def _draw(columns: list[Column], when: str) -> Figure:
    return draw_sheet(f"attention of the class token in the last block, {when}", columns)
