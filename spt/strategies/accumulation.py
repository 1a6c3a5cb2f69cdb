"""Gradients of several micro-batches that are averaged over processes once."""

from __future__ import annotations

from torch import nn
from torch.distributed.fsdp import FSDPModule


def keep_gradients_whole(model: nn.Module) -> None:
    """Lets the next backward pass add to gradients of the whole weights, without averaging any."""
    for unit in _units(model):
        unit.set_requires_gradient_sync(False, recurse=False)


def reduce_gradients(model: nn.Module) -> None:
    """Averages over processes what backward passes have added up, once for every unit.

    fully_shard would do so during the last backward pass, but at each of a unit's uses there: one that ran twice in
    the forward, as DINO's blocks do for two sizes of crops, averages what the earlier micro-batches left on its own,
    at twice the cost and in another order of sums. No public function averages afterwards, so this calls what
    fully_shard itself calls at the end of every backward pass, for units that have not averaged yet: all of them.
    """
    units = _units(model)
    for unit in units:
        unit.set_requires_gradient_sync(True, recurse=False)
    for state in [unit._get_fsdp_state() for unit in units]:
        if state._is_root:
            state._root_post_backward_final_callback()


def _units(model: nn.Module) -> list[FSDPModule]:
    return [part for part in model.modules() if isinstance(part, FSDPModule)]
