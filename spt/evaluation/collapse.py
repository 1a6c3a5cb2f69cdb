"""Whether embeddings of different images still differ."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

# B images, D embedding


def embedding_std(embeddings: Tensor) -> float:
    """Spread of the directions of embeddings: 0 when all images share one direction, 1 when they point anywhere alike.

    Args:
        embeddings: [B, D], any scale.

    Equals: sqrt(D) * mean over dimensions of std over images of embeddings / ||embeddings||, std with divisor B.
    Paper: SimSiam, arXiv 2011.10566, sec. 4.1 (its curve divided by the 1 / sqrt(D) that it should reach).
    """
    directions = F.normalize(embeddings.float(), dim=1)  # [B, D]
    return float(directions.std(dim=0, correction=0).mean()) * math.sqrt(embeddings.shape[1])


def rankme(embeddings: Tensor) -> float:
    """Number of dimensions that embeddings use, in [1, min(B, D)]: exp of the entropy of their singular values.

    Args:
        embeddings: [B, D], not centred.

    Returns:
        1 when all embeddings are multiples of one vector; nan when all are zero.

    Paper: RankMe, arXiv 2210.02885, eq. 1 and 2; its epsilon of 1e-7, which makes the value drift below 1, is left out.
    """
    singular_values = torch.linalg.svdvals(embeddings.float())  # [min(B, D)]
    shares = singular_values / singular_values.sum()
    return float(torch.special.entr(shares).sum().exp())
