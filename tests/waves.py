"""Inputs of the golden values: sines, the same on every machine."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor


def wave(shape: tuple[int, ...], frequency: float) -> Tensor:
    """sin(frequency * n + 0.1) for n = 0, 1, ..., as a float64 tensor of `shape`."""
    return torch.sin(frequency * torch.arange(prod(shape), dtype=torch.float64) + 0.1).reshape(shape)
