"""Gradient clipping by tensor and over all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from spt.distributed.shards import local, norms


@torch.no_grad()
def clip_gradients(
    parameters: Iterable[nn.Parameter], *, max_norm: float | None, unit: Literal["tensor", "global"]
) -> Tensor:
    """Shortens gradients to at most `max_norm` and gives their norm before that.

    Args:
        parameters: those whose gradient counts; None gradients are passed over.
        max_norm: L2 norm; None clips nothing.
        unit: "tensor": each gradient by its own norm (DINO, utils.py:132); "global": all by their joint norm.

    Returns:
        Scalar, the joint L2 norm of all gradients before clipping.

    A gradient of norm n is multiplied by max_norm / (n + 1e-6) where that is below 1, as torch and DINO do.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return torch.zeros(())
    lengths = norms(gradients)  # [number of tensors]
    total = lengths.norm()
    if max_norm is not None:
        scales = (max_norm / ((lengths if unit == "tensor" else total) + 1e-6)).clamp(max=1.0)
        own = [local(gradient) for gradient in gradients]
        if unit == "tensor":
            torch._foreach_mul_(own, list(scales.unbind()))
        else:
            torch._foreach_mul_(own, scales)
    return total
