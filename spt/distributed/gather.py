"""Collectives over the processes that train on different images, with gradient where it is needed.

All of them are the identity in a single process.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

# B rows per device, W processes

# None: all processes. A fact about this process, like torch's own default group: which of the others see other images.
_group: dist.ProcessGroup | None = None
# those processes, and the group in which they pass numbers of their hosts to each other
_hosts: tuple[dist.ProcessGroup, dist.ProcessGroup] | None = None


def gather_within(group: dist.ProcessGroup | None) -> None:
    """Makes `group` the processes that see different images; None for all of them.

    Under tensor parallelism several processes work on the same images, and none may count them twice.
    """
    global _group
    _group = group


def data_group() -> dist.ProcessGroup | None:
    """The processes that see different images; None for all of them."""
    return _group


def world_size() -> int:
    """Number of processes W that see different images; 1 without a process group."""
    return dist.get_world_size(_group) if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """This process's number in [0, W)."""
    return dist.get_rank(_group) if world_size() > 1 else 0


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, rows: Tensor) -> Tensor:
        gathered = [torch.empty_like(rows, memory_format=torch.contiguous_format) for _ in range(world_size())]
        dist.all_gather(gathered, rows.contiguous(), group=_group)
        return torch.cat(gathered)  # [WB, ...]

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> Tensor:
        # every rank's loss depends on every rank's rows: their gradients are summed, then each rank keeps its own slice
        return _summed(grads[0]).chunk(world_size())[rank()]


def _summed(values: Tensor) -> Tensor:
    total = values.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=_group)
    return total


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
    return values if world_size() == 1 else _summed(values)


def mean_over_ranks(metrics: Mapping[str, Tensor | float]) -> dict[str, Tensor | float]:
    """Scalars averaged over all processes, in one collective and without waiting for the device.

    Args:
        metrics: scalars by name, the same names on every process. Floats are taken to be equal everywhere.

    A value that is not finite on one process is not finite on any afterwards.
    """
    tensors = {name: value for name, value in metrics.items() if isinstance(value, Tensor)}
    if world_size() == 1 or not tensors:
        return dict(metrics)
    means = _summed(torch.stack([value.float() for value in tensors.values()])) / world_size()
    return {**metrics, **dict(zip(tensors, means.unbind(), strict=True))}


def smallest_over_ranks(value: int, device: torch.device) -> int:
    """The smallest of the processes' numbers; waits for the device."""
    if world_size() == 1:
        return value
    smallest = torch.tensor(value, device=device)
    dist.all_reduce(smallest, dist.ReduceOp.MIN, group=_group)
    return int(smallest)


def smallest_over_hosts(value: int) -> int:
    """The smallest of the processes' numbers; the hosts wait for each other, and no device is waited for."""
    if world_size() == 1:
        return value
    smallest = torch.tensor(value)
    dist.all_reduce(smallest, dist.ReduceOp.MIN, group=_host_group())
    return int(smallest)


def _host_group() -> dist.ProcessGroup:
    """`data_group`, or the same processes once more where its backend moves tensors of devices alone, as NCCL does."""
    global _hosts
    devices = _group or dist.group.WORLD
    assert devices is not None, "there is a process group"
    if _hosts is None or _hosts[0] is not devices:
        _hosts = (devices, devices if dist.get_backend(devices) == "gloo" else _gloo_like(devices))
    return _hosts[1]


def _gloo_like(group: dist.ProcessGroup) -> dist.ProcessGroup:
    # local: processes of other groups, which may not call this, are not waited for
    made = dist.new_group(dist.get_process_group_ranks(group), backend="gloo", use_local_synchronization=True)
    assert isinstance(made, dist.ProcessGroup), "this process is one of the group"
    return made


def is_on_any_rank(fact: bool, device: torch.device) -> bool:
    """Whether something holds on at least one process: the same answer on all; waits for the device."""
    return smallest_over_ranks(0 if fact else 1, device) == 0
