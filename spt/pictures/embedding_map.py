"""Where the network puts images, on a plane."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from matplotlib import colormaps
from matplotlib.figure import Figure

from spt.evaluation.principal import Principal, principal_components
from spt.evaluation.rows import Rows
from spt.pictures.evaluation import Evaluation
from spt.pictures.painter import Colors, Drawing, EvaluationPainter

_COLORED = 10  # classes in colour: more cannot be told apart


class EmbeddingMapPainter(EvaluationPainter):
    """plots/embedding_map.png: embeddings of validation images on their two principal components, coloured by class.

    Embeddings are scaled to length 1, as k-NN compares them. PCA rather than t-SNE: nothing is drawn at random, and
    distances mean the same at every step.

    Args:
        num_images: points, at most, evenly spread over the validation set.
    """

    def __init__(self, *, num_images: int) -> None:
        self.num_images = num_images

    def paint(self, evaluation: Evaluation, colors: Colors) -> Drawing:
        """The validation set, or an even choice of it."""
        rows = evaluation.val_rows(evaluation.spread(self.num_images))
        return partial(_draw, rows, principal_components(F.normalize(rows.embeddings, dim=1), 2))


def _draw(rows: Rows, points: Principal, when: str) -> Figure:
    figure = Figure(figsize=(6.2, 5.2), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    x, y = points.coordinates.T.numpy()
    labels = rows.labels.cpu()
    present = labels.unique()
    shown = present[torch.linspace(0, len(present) - 1, min(_COLORED, len(present))).round().long()]
    others = ~torch.isin(labels, shown)
    if others.any():
        axes.scatter(x[others], y[others], s=6, color="#cccccc", linewidths=0, label="other classes")
    for number, label in enumerate(shown.tolist()):
        chosen = labels == label
        axes.scatter(x[chosen], y[chosen], s=11, color=colormaps["tab10"](number), linewidths=0, label=f"class {label}")
    axes.set_title(f"embeddings of {len(x)} validation images, {when}", fontsize=9, loc="left")
    for axis, share, name in zip((axes.xaxis, axes.yaxis), points.shares.tolist(), ("first", "second"), strict=True):
        axis.set_label_text(f"{name} principal component ({share:.0%} of the variance)", fontsize=8)
    axes.set_aspect("equal", adjustable="datalim")  # one scale: distances can be compared
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=7, frameon=False, loc="outside right upper", markerscale=1.6)
    return figure
