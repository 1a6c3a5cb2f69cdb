"""Gaussian blur of a batch in which every image has a width of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from spt.views.resample import apply_separable

# B images per device, S pixels

_NOTHING = 1e-20  # weights below are beyond float32's digits; processors take ten times as long over the smallest


def gaussian_blur(images: Tensor, sigmas: Tensor) -> Tensor:
    """Images blurred with a sampled Gaussian that is not cut off; what lies beyond the edge has no weight.

    Args:
        images: [B, C, S, S], float32.
        sigmas: [B], standard deviations in pixels; 0 leaves an image as it is.
    """
    size = images.shape[-1]
    distances = torch.arange(size, device=images.device)
    precisions = 0.5 / sigmas.clamp(min=1e-3) ** 2  # [B]; at 1e-3 pixels the neighbours' weight is exactly zero
    weights = torch.exp(-(distances**2) * precisions[:, None])  # [B, S], by distance
    weights = torch.where(weights < _NOTHING, 0.0, weights)
    line = torch.cat([weights.flip(1), weights[:, 1:]], dim=1)  # [B, 2S - 1], the pixel itself in the middle
    kernels = line.unfold(1, size, 1).flip(1)  # [B, S, S], a window for every pixel
    kernels = kernels / kernels.sum(dim=-1, keepdim=True)
    return apply_separable(images, kernels, kernels)
