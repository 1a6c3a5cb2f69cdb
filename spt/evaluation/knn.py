"""Weighted nearest-neighbour classification."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# M images in the bank, B queries, D embedding, C classes, K neighbours

_CHUNK_SIMILARITIES = 2**24  # similarities held at once: 64 MiB in float32


def knn_predict(
    bank: Tensor, *, bank_labels: Tensor, queries: Tensor, k: int, temperature: float, num_classes: int
) -> Tensor:
    """Score of every class for every query, from the labels of its most similar bank images.

    Args:
        bank: [M, D], any scale; M >= 1.
        bank_labels: [M], int64, in [0, num_classes). Queries' own labels play no part.
        queries: [B, D], any scale.
        k: neighbours that vote; a bank of fewer images votes as a whole.
        temperature: > 0; a neighbour's vote is exp(cosine similarity / temperature). Smaller trusts the nearest more.
        num_classes: C, of the data set; classes that the bank lacks score 0.

    Returns:
        [B, C], >= 0, up to a factor that all classes of a query share; the largest is the prediction.

    Equals, for every query b and class c: sum over the k bank images m most similar to b with label c of
    exp((cos(b, m) - 1) / temperature)
    Paper: Wu et al., arXiv 1805.01978, sec. 3.4; as DINO evaluates (arXiv 2104.14294, appendix F).
    """
    bank = F.normalize(bank.float(), dim=1)  # [M, D]
    queries = F.normalize(queries.float(), dim=1)  # [B, D]
    k = min(k, len(bank))
    chunks = queries.split(max(1, _CHUNK_SIMILARITIES // len(bank)))
    scores = [queries.new_zeros(0, num_classes)]
    for chunk in chunks:
        similarities, neighbours = (chunk @ bank.T).topk(k, dim=1)  # [b, K]
        votes = ((similarities - 1) / temperature).exp()  # minus 1: a small temperature must not overflow
        scores.append(votes.new_zeros(len(chunk), num_classes).scatter_add_(1, bank_labels[neighbours], votes))
    return torch.cat(scores)  # [B, C]
