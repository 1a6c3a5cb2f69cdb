"""Stochastic depth in a form that one compiled block can serve at every rate."""

from __future__ import annotations

import torch
from timm.layers import DropPath
from torch import Tensor, nn

# B images


class TensorDropPath(DropPath):
    """timm's DropPath with its rate in a tensor.

    torch.compile takes a number of a module for a constant, and would make a graph for every rate.

    Args:
        rate: probability that a row's branch is left out.
        scales: what is kept is divided by the probability of that.
    """

    def __init__(self, rate: float, *, scales: bool) -> None:
        super().__init__(rate, scales)
        # neither parameter nor buffer: names in checkpoints stay what they were
        self._kept: dict[torch.device, Tensor] = {}

    def kept(self, device: torch.device) -> Tensor:
        """The probability that a branch is kept, a scalar."""
        if device not in self._kept:
            self._kept[device] = torch.tensor(1.0 - self.drop_prob, device=device)
        return self._kept[device]

    def forward(self, x: Tensor) -> Tensor:
        """[B, ...] with whole rows set to zero."""
        if not self.training:
            return x
        kept = self.kept(x.device)
        rows = torch.rand(x.shape[:1] + (1,) * (x.ndim - 1), device=x.device) < kept
        return x * (rows / kept if self.scale_by_keep else rows).to(x.dtype)


def replace_drop_path(network: nn.Module) -> None:
    """Puts a TensorDropPath in the place of every DropPath of timm below `network`."""
    for module in list(network.modules()):
        for name, child in module.named_children():
            if type(child) is DropPath:
                setattr(module, name, TensorDropPath(child.drop_prob, scales=child.scale_by_keep))
