"""Which images the network takes for alike."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from spt.evaluation.rows import Rows, gather_unique
from spt.pictures.evaluation import Evaluation
from spt.pictures.painter import Colors, Drawing, EvaluationPainter
from spt.pictures.sheet import Column, draw_sheet
from spt.probes.probe import BANK, VAL

# Q queries, M bank images on this process, D embedding, K neighbours

_SAME, _OTHER = (0.23, 0.60, 0.30), (0.80, 0.25, 0.20)


class NeighboursPainter(EvaluationPainter):
    """plots/neighbours.png: validation images, each with the images of the k-NN bank that are most similar to it.

    Captions give the class and the cosine similarity; a frame is green where the class is that of the image, else red.

    Args:
        num_neighbours: K, at most.
    """

    def __init__(self, *, num_neighbours: int) -> None:
        self.num_neighbours = num_neighbours

    def paint(self, evaluation: Evaluation, colors: Colors) -> Drawing:
        """The validation images that are shown."""
        queries = evaluation.val_rows(evaluation.shown)
        found = nearest(queries.embeddings, evaluation.rows[BANK].labelled(), self.num_neighbours)
        labels = [str(int(label)) if label >= 0 else "" for label in queries.labels]
        pixels = colors.pixels(evaluation.images(VAL, queries.indices.tolist()))
        columns = [Column("image", pixels, [f"class {label}" for label in labels])]
        for place in range(found.similarities.shape[1]):
            classes, similarities = found.labels[:, place], found.similarities[:, place]
            columns.append(
                Column(
                    f"nearest {place + 1}",
                    colors.pixels(evaluation.images(BANK, found.indices[:, place].tolist())),
                    [f"{int(c)}  ({float(s):.3f})" for c, s in zip(classes, similarities, strict=True)],
                    [_SAME if same else _OTHER for same in (classes == queries.labels).tolist()],
                )
            )
        return partial(_draw, columns)


class Nearest(NamedTuple):
    """The most similar images of a bank, nearest first.

    Attributes:
        indices: [Q, K], positions in the training set.
        labels: [Q, K].
        similarities: [Q, K], cosines.
    """

    indices: Tensor
    labels: Tensor
    similarities: Tensor


def nearest(queries: Tensor, bank: Rows, k: int) -> Nearest:
    """Neighbours in a bank that is spread over processes: each offers its own nearest, and all choose among those.

    Args:
        queries: [Q, D], the same on every process.
        bank: this process's rows; k of all processes together are enough.
        k: neighbours; a bank of fewer images gives them all.
    """
    own = _cosines(queries, bank.embeddings).topk(min(k, len(bank.labels)), dim=1).indices.unique()
    offered = gather_unique(Rows(*(column[own] for column in bank)))
    found = _cosines(queries, offered.embeddings).topk(min(k, len(offered.labels)), dim=1)
    return Nearest(offered.indices[found.indices], offered.labels[found.indices], found.values)


def _cosines(queries: Tensor, bank: Tensor) -> Tensor:
    """[Q, D], [M, D] -> [Q, M]."""
    return torch.mm(F.normalize(queries.float(), dim=1), F.normalize(bank.float(), dim=1).T)


def _draw(columns: list[Column], when: str) -> Figure:
    return draw_sheet(f"nearest neighbours in the bank (green: of the same class), {when}", columns)
