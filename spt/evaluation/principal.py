"""The directions along which embeddings or tokens vary most."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# M rows, D dimensions, K components


class Principal(NamedTuple):
    """Rows in the coordinates of their principal components.

    Attributes:
        coordinates: [M, K], float64, of mean 0, the component of most variance first.
        shares: [K], of the whole variance, in [0, 1]; 0 when nothing varies.
    """

    coordinates: Tensor
    shares: Tensor


def principal_components(rows: Tensor, num_components: int) -> Principal:
    """The same for the same rows, with nothing drawn at random: torch.pca_lowrank uses the global generator.

    A component's sign, which is arbitrary, is such that its largest loading is positive.

    Args:
        rows: [M, D], any scale; M >= 1.
        num_components: K; those that D dimensions do not have are 0.
    """
    rows = rows.detach().cpu().double()
    centred = rows - rows.mean(0)
    variances, directions = torch.linalg.eigh(centred.T @ centred / len(rows))  # [D] ascending, [D, D]
    kept = min(num_components, rows.shape[1])
    variances, directions = variances.flip(0).clamp(min=0), directions.flip(1)[:, :kept]  # [D], [D, kept]
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))  # [1, kept]
    directions = directions * torch.where(largest < 0, -1.0, 1.0)
    coordinates, shares = rows.new_zeros(len(rows), num_components), rows.new_zeros(num_components)
    coordinates[:, :kept] = centred @ directions
    shares[:kept] = variances[:kept] / variances.sum().clamp(min=torch.finfo(rows.dtype).tiny)
    return Principal(coordinates, shares)
