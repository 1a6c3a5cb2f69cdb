"""Collectives that carry gradients, and their identity in a single process."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

# B rows per device, W processes


def world_size() -> int:
    """Number of processes W that train together; 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """This process's number in [0, W)."""
    return dist.get_rank() if world_size() > 1 else 0


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, rows: Tensor) -> Tensor:
        gathered = [torch.empty_like(rows) for _ in range(world_size())]
        dist.all_gather(gathered, rows.contiguous())
        return torch.cat(gathered)  # [WB, ...]

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> Tensor:
        # every rank's loss depends on every rank's rows: their gradients are summed, then each rank keeps its own slice
        summed = grads[0].contiguous()
        dist.all_reduce(summed)
        return summed.chunk(world_size())[rank()]


def gather_rows(rows: Tensor) -> Tensor:
    """Rows of all processes, in rank order, with gradient to every process.

    Args:
        rows: [B, ...], the same shape on every process.

    Returns:
        [WB, ...]. In the backward pass the gradients of all processes are summed, so that after the usual averaging
        over processes the gradient is that of the mean of the processes' losses.
    """
    return rows if world_size() == 1 else _GatherRows.apply(rows)


def sum_over_ranks(values: Tensor) -> Tensor:
    """Sum of `values` over all processes, without gradient; `values` itself is left alone."""
    if world_size() == 1:
        return values
    total = values.detach().clone()
    dist.all_reduce(total)
    return total
