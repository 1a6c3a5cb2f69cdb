"""Parameters seen alike whether whole (single, ddp) or sharded (fsdp2)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor


def reshard(root: nn.Module) -> None:
    """Puts every fully_shard unit below `root` back to its shards.

    A unit left gathered after a forward holds copies: what is written to the shards would not be seen by the next
        forward, and
    what is read from the copies would be stale.
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


def local_parameters(root: nn.Module) -> list[Tensor]:
    """What this process holds of every parameter of `root`, in a fixed order."""
    reshard(root)
    return [local(parameter) for parameter in root.parameters()]
