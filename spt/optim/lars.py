"""LARS in both published forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from spt.distributed.shards import local, norms


class LARS(Optimizer):
    """Momentum SGD whose steps are scaled, tensor by tensor, to the length of the weights (arXiv 1708.03888).

    With g the gradient plus weight_decay * p and trust = trust_coefficient * ||p|| / ||g|| (1 where either norm is 0):

        lr_outside (BYOL, utils/optimizers.py):          v <- momentum * v + trust * g;       p <- p - lr * v
        lr_inside  (SimCLR, lars_optimizer.py:101-116):  v <- momentum * v + lr * trust * g;  p <- p - v

    The two differ while the learning rate changes. Groups with `adapt=False` (biases and norms) have trust 1 and no
    decay.

    Args:
        params: parameters or groups; a group may hold `adapt` (default True) and `weight_decay`.
        lr: learning rate; schedules write it into the groups.
        momentum: share of the old velocity that stays.
        trust_coefficient: eta of the papers.
        momentum_form: "lr_outside" or "lr_inside".
        weight_decay: added to the gradient before its norm is taken.
    """

    def __init__(
        self, params: Iterable[Tensor] | Iterable[dict[str, object]], lr: float, *, momentum: float,
        trust_coefficient: float, momentum_form: Literal["lr_outside", "lr_inside"], weight_decay: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "adapt": True})
        self.momentum = momentum
        self.trust_coefficient = trust_coefficient
        self.momentum_form = momentum_form

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; `closure` recomputes the loss and is called first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if parameters:
                self._move(parameters, group)
        return loss

    def _move(self, parameters: list[Tensor], group: dict[str, object]) -> None:
        lr = cast(float, group["lr"])
        inside, outside = (lr, 1.0) if self.momentum_form == "lr_inside" else (1.0, lr)
        for parameter in parameters:
            if "velocity" not in self.state[parameter]:
                self.state[parameter]["velocity"] = torch.zeros_like(parameter)
        updates = [cast(Tensor, parameter.grad) for parameter in parameters]
        if group["adapt"]:
            updates = self._adapted(parameters, updates, cast(float, group["weight_decay"]))
        # on what this process holds of each: nothing below mixes elements
        weights, updates, velocities = (
            [local(tensor) for tensor in tensors]
            for tensors in (parameters, updates, [self.state[parameter]["velocity"] for parameter in parameters])
        )
        torch._foreach_mul_(velocities, self.momentum)
        torch._foreach_add_(velocities, updates, alpha=inside)
        torch._foreach_add_(weights, velocities, alpha=-outside)

    def _adapted(self, parameters: list[Tensor], gradients: list[Tensor], weight_decay: float) -> list[Tensor]:
        decayed = torch._foreach_add(gradients, parameters, alpha=weight_decay)
        # all norms in one collective
        weight_norms, gradient_norms = norms([*parameters, *decayed]).chunk(2)  # [number of tensors] each
        trust = torch.where(
            (weight_norms > 0) & (gradient_norms > 0), self.trust_coefficient * weight_norms / gradient_norms, 1.0
        )  # stays on the device
        return list(torch._foreach_mul([local(gradient) for gradient in decayed], list(trust.unbind())))
