"""An optimizer with its schedules, groups and clipping, as one recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from spt.optim.clipping import clip_gradients
from spt.schedules import Schedule
from spt.types import Progress


@dataclass(frozen=True)
class OptimizerRecipe:
    """How the weights of a method move.

    Attributes:
        factory: groups of parameters to an optimizer.
        lr: peak learning rate for this global batch.
        lr_schedule: learning rate at every optimizer step.
        weight_decay: decay of the first step.
        weight_decay_schedule: decay at every optimizer step.
        exempt_from_decay: "bias_and_norm": biases and one-dimensional tensors have no decay and, under LARS, no adaptation; "nothing".
        clip_norm: greatest L2 norm of gradients; None clips nothing.
        clip_unit: what the norm is taken of: each "tensor", or all together, "global".
    """

    factory: Callable[[list[dict[str, object]]], Optimizer]
    lr: float
    lr_schedule: Schedule
    weight_decay: float
    weight_decay_schedule: Schedule
    exempt_from_decay: Literal["bias_and_norm", "nothing"]
    clip_norm: float | None
    clip_unit: Literal["tensor", "global"]

    def groups(self, network: nn.Module) -> list[dict[str, object]]:
        """The trainable parameters of `network` in up to two groups, "decayed" and "exempt", in the order of their names."""
        decayed, exempt = [], []
        for name, parameter in network.named_parameters():
            if not parameter.requires_grad:
                continue
            is_exempt = self.exempt_from_decay == "bias_and_norm" and (name.endswith("bias") or parameter.ndim <= 1)
            (exempt if is_exempt else decayed).append(parameter)
        groups: list[dict[str, object]] = [
            {"name": "decayed", "params": decayed, "weight_decay": self.weight_decay, "adapt": True},
            {"name": "exempt", "params": exempt, "weight_decay": 0.0, "adapt": False},
        ]
        return [group for group in groups if group["params"]]

    def build(self, network: nn.Module) -> Optimizer:
        """The optimizer of the trainable parameters of `network`."""
        return self.factory(self.groups(network))

    def set_step(self, optimizer: Optimizer, progress: Progress) -> dict[str, float]:
        """Writes this step's learning rate and weight decay into the groups, and gives them by their metric names."""
        lr, weight_decay = self.lr_schedule(progress), self.weight_decay_schedule(progress)
        for group in optimizer.param_groups:
            group["lr"] = lr
            if group["name"] == "decayed":
                group["weight_decay"] = weight_decay
        return {"train/lr": lr, "train/weight_decay": weight_decay}

    def clip(self, network: nn.Module) -> Tensor:
        """Clips the gradients of `network` and gives their joint norm before that, a scalar."""
        return clip_gradients(network.parameters(), max_norm=self.clip_norm, unit=self.clip_unit)
