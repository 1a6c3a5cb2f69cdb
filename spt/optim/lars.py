"""LARS in both published forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor
from torch.optim import Optimizer


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
            inside = group["lr"] if self.momentum_form == "lr_inside" else 1.0
            outside = 1.0 if self.momentum_form == "lr_inside" else group["lr"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                velocity = self.state[parameter].setdefault("velocity", torch.zeros_like(parameter))
                update = parameter.grad
                if group["adapt"]:
                    update = self._scaled(parameter, update, group["weight_decay"])
                velocity.mul_(self.momentum).add_(update, alpha=inside)
                parameter.sub_(velocity, alpha=outside)
        return loss

    def _scaled(self, parameter: Tensor, gradient: Tensor, weight_decay: float) -> Tensor:
        gradient = gradient.add(parameter, alpha=weight_decay)
        weight_norm, gradient_norm = parameter.norm(), gradient.norm()
        trust = torch.where(
            (weight_norm > 0) & (gradient_norm > 0), self.trust_coefficient * weight_norm / gradient_norm, 1.0
        )  # stays on the device
        return gradient * trust
