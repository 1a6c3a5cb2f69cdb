"""Patch tokens as colours."""

from __future__ import annotations

from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

from spt.evaluation.principal import principal_components
from spt.pictures.evaluation import Evaluation
from spt.pictures.painter import Colors, Drawing, EvaluationPainter
from spt.pictures.sheet import Column, Images, draw_sheet

# n images shown, N patches, D embedding, G patches a side

_TAIL = 0.02  # share of values at each end that saturate: one outlier must not take all the contrast


class TokensPainter(EvaluationPainter):
    """plots/tokens.png: three principal components of the evaluated network's patch tokens, as red, green and blue.

    The components are those of all patches of all images shown, so equal colours mean similar tokens across images.

    Paper: DINOv2, arXiv 2304.07193, figure 1.
    """

    def paint(self, evaluation: Evaluation, colors: Colors) -> Drawing | None:
        """The validation images that are shown; None for backbones without tokens."""
        tokens = evaluation.glimpse.tokens
        if tokens is None:
            return None
        columns = [
            Column("image", colors.pixels(evaluation.view)),
            Column("PCA of tokens\nas RGB", in_colors(tokens)),
        ]
        return partial(_draw, columns)


def in_colors(tokens: Tensor) -> Images:
    """[n, N, D] in raster order -> [n, G, G, 3] in [0, 1]."""
    side = round(tokens.shape[1] ** 0.5)
    components = principal_components(tokens.flatten(0, 1), 3).coordinates  # [n * N, 3]
    low, high = torch.quantile(components, torch.tensor([_TAIL, 1 - _TAIL], dtype=components.dtype), dim=0)
    scaled = ((components - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)
    images: Images = scaled.view(-1, side, side, 3).float().numpy()
    return images


def _draw(columns: list[Column], when: str) -> Figure:
    return draw_sheet(f"patch tokens, {when}", columns)
