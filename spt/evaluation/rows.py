"""Embeddings of a data set that was spread over processes, each image once."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from spt.distributed.gather import data_group, world_size

# b images on this process, M images in all, D embedding, W processes


class Rows(NamedTuple):
    """Embedded images.

    Attributes:
        embeddings: [M, D], float32.
        labels: [M], int64; below 0 where an image has none.
        indices: [M], int64, position of each image in its data set.
    """

    embeddings: Tensor
    labels: Tensor
    indices: Tensor

    def labelled(self) -> Rows:
        """The rows that have a label."""
        keep = self.labels >= 0
        return Rows(self.embeddings[keep], self.labels[keep], self.indices[keep])


def concatenate(parts: list[Rows]) -> Rows:
    """All rows of the parts, in order; at least one part."""
    return Rows(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def gather_unique(rows: Rows) -> Rows:
    """Rows of all processes in the order of their indices, every index once: the same on every process.

    Args:
        rows: this process's rows; their number may differ from process to process, and may be 0.

    Returns:
        [M, ...], for any number of processes equal to what one process would have seen.
    """
    rows = Rows(*(_gather_unequal(column) for column in rows))
    order = rows.indices.argsort(stable=True)  # [M + duplicates]
    indices = rows.indices[order]
    is_first = torch.ones_like(indices, dtype=torch.bool)
    is_first[1:] = indices[1:] != indices[:-1]
    return Rows(*(column[order[is_first]] for column in rows))


def _gather_unequal(column: Tensor) -> Tensor:
    """[b, ...] with b of each process its own -> [sum of b, ...], in rank order."""
    if world_size() == 1:
        return column
    sizes = [torch.zeros(1, dtype=torch.int64, device=column.device) for _ in range(world_size())]
    dist.all_gather(sizes, torch.tensor([len(column)], device=column.device), group=data_group())
    counts = [int(size) for size in sizes]
    # collectives want one shape: short processes are padded, and the padding is cut off by count
    padded = column.new_zeros(max(counts), *column.shape[1:])
    padded[: len(column)] = column
    gathered = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(gathered, padded, group=data_group())
    return torch.cat([part[:count] for part, count in zip(gathered, counts, strict=True)])
