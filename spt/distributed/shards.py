"""Parameters seen alike whether whole (single, ddp) or sharded (fsdp2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

# n tensors


def reshard(root: nn.Module) -> None:
    """Puts every fully_shard unit below `root` back to its shards.

    A unit left gathered after a forward holds copies: what is written to the shards would not be seen by the next
    forward, and what is read from the copies would be stale.
    """
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def local(tensor: Tensor) -> Tensor:
    """The part of `tensor` that this process holds, sharing its storage."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def full(tensor: Tensor) -> Tensor:
    """The whole of `tensor` on every process."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class LocalParameters:
    """What this process holds of every parameter of a network, whose places in it are looked up once.

    A walk over the modules of a ViT-B costs ten times as much as all else that is needed to move its weights. Places
    rather than tensors are kept, for sharding, moving and loading put other tensors there.

    Args:
        root: whose modules stay, and are divided already if they are to be.
    """

    def __init__(self, root: nn.Module) -> None:
        self._units = [module for module in root.modules() if isinstance(module, FSDPModule)]
        self._places: list[tuple[dict[str, nn.Parameter | None], str]] = []
        seen: set[nn.Parameter] = set()
        for module in root.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None and parameter not in seen:
                    seen.add(parameter)
                    self._places.append((module._parameters, name))

    def now(self) -> list[Tensor]:
        """The tensors, in a fixed order; every unit that was left gathered goes back to its shards first."""
        for unit in self._units:
            unit.reshard()
        return [local(cast(Tensor, parameters[name])) for parameters, name in self._places]


@torch.no_grad()
def norms(tensors: Sequence[Tensor]) -> Tensor:
    """L2 norms of whole tensors, float32, [n], the same on every process.

    Args:
        tensors: n, whole or sharded, of any shapes.

    Sharded tensors cost one collective together, not one each: their local squares are added up.
    """
    own = [local(tensor) for tensor in tensors]
    # of sums of squares in float32 at least: those of bfloat16 have three digits
    widest = torch.float64 if any(tensor.dtype == torch.float64 for tensor in own) else torch.float32
    parts = torch.stack(torch._foreach_norm(own, 2, dtype=widest)).float()  # [n]
    groups = _sharding_groups(tensors)
    if not groups:
        return parts
    squares = parts.square()
    for group, members in groups.items():
        chosen = _positions(tuple(members), squares.device)
        part = squares[chosen]
        dist.all_reduce(part, group=group)
        squares[chosen] = part
    return squares.sqrt()


@cache  # a copy to a GPU would wait for all that it has to do
def _positions(members: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(members, device=device)


def _sharding_groups(tensors: Sequence[Tensor]) -> dict[dist.ProcessGroup, list[int]]:
    """For every group that tensors are cut over, the positions of those tensors; groups of one process left out."""
    groups: dict[dist.ProcessGroup, list[int]] = defaultdict(list)
    for position, tensor in enumerate(tensors):
        if isinstance(tensor, DTensor):
            for dimension, placement in enumerate(tensor.placements):
                # not is_shard(), which is False where tensor parallelism has cut a dimension before
                is_cut = not (placement.is_replicate() or placement.is_partial())
                if is_cut and tensor.device_mesh.size(dimension) > 1:
                    groups[tensor.device_mesh.get_group(dimension)].append(position)
    return groups
