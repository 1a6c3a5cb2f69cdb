"""An optimizer with its schedules, groups and clipping, as one recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from spt.config.errors import ConfigError
from spt.optim.clipping import clip_gradients
from spt.schedules import Schedule
from spt.types import Progress


@dataclass(frozen=True)
class OptimizerRecipe:
    """How the weights of a method move.

    Attributes:
        rules: update rules by name, each (groups of parameters, lr) to an optimizer.
        rule: the one that is used.
        lr: peak learning rate for this global batch.
        lr_schedule: learning rate at every optimizer step.
        weight_decay: decay of the first step.
        weight_decay_schedule: decay at every optimizer step.
        exempt_from_decay: "bias_and_norm": biases and one-dimensional tensors have no decay and, under LARS, no
            adaptation; "nothing".
        clip_norm: greatest L2 norm of gradients; None clips nothing.
        clip_unit: what the norm is taken of: each "tensor", or all together, "global".
    """

    rules: Mapping[str, Callable[..., Optimizer]]
    rule: str
    lr: float
    lr_schedule: Schedule
    weight_decay: float
    weight_decay_schedule: Schedule
    exempt_from_decay: Literal["bias_and_norm", "nothing"]
    clip_norm: float | None
    clip_unit: Literal["tensor", "global"]

    def __post_init__(self) -> None:
        """Refuses words that mean nothing.

        Raises:
            ConfigError: a rule, an exemption or a clipping unit that does not exist.
        """
        for key, value, known in (
            ("rule", self.rule, tuple(self.rules)),
            ("exempt_from_decay", self.exempt_from_decay, ("bias_and_norm", "nothing")),
            ("clip_unit", self.clip_unit, ("tensor", "global")),
        ):
            if value not in known:
                raise ConfigError(f"optimizer.{key}={value} does not exist; use optimizer.{key}={'|'.join(known)}.")

    def groups(self, network: nn.Module) -> list[dict[str, object]]:
        """The trainable parameters of `network` in up to two groups, "decayed" and "exempt", in order."""
        decayed: list[nn.Parameter] = []
        exempt: list[nn.Parameter] = []
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
        return self.rules[self.rule](self.groups(network), lr=self.lr)

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
