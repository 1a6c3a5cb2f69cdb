"""What all processes hold a copy of, and how the copies are kept alike."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from spt.distributed.batch_norm import BatchNorm
from spt.distributed.gather import sum_over_ranks, world_size

_STATISTICS = ("running_mean", "running_var")


@torch.no_grad()
def copy_from_first(module: nn.Module, device: torch.device) -> None:
    """Gives every process the first one's parameters and buffers, whatever the seeds were; before any is sharded.

    Args:
        module: the same structure on every process.
        device: one that the process group can send from.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return
    for tensor in [*module.parameters(), *module.buffers()]:
        sent = tensor.to(device).contiguous()
        dist.broadcast(sent, src=0)
        tensor.copy_(sent)


@torch.no_grad()
def average_running_statistics(module: nn.Module) -> None:
    """Replaces running means and variances of BatchNorm by their averages over processes, in one collective.

    With statistics of each device's own images they differ, and with them embeddings and checkpoints would depend on
    the rank. Training does not read them, so it goes on as it would have.
    """
    own = [statistic for layer in module.modules() for statistic in _own_statistics(layer)]
    if world_size() == 1 or not own:
        return
    flat = sum_over_ranks(torch.cat([statistic.float().flatten() for statistic in own])) / world_size()
    for statistic, mean in zip(own, flat.split([statistic.numel() for statistic in own]), strict=True):
        statistic.copy_(mean.view_as(statistic))


def _own_statistics(layer: nn.Module) -> list[Tensor]:
    is_own = isinstance(layer, nn.modules.batchnorm._BatchNorm) or (
        isinstance(layer, BatchNorm) and not layer.across_ranks
    )
    return [buffer for name, buffer in layer.named_buffers(recurse=False) if is_own and name in _STATISTICS]
