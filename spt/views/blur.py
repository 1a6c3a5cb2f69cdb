"""Gaussian blur of a batch in which every image has a width of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from spt.views.resample import apply_separable

# B images per device, S pixels


def gaussian_blur(images: Tensor, sigmas: Tensor) -> Tensor:
    """Images blurred with a sampled Gaussian that is not cut off; what lies beyond the edge has no weight.

    Args:
        images: [B, C, S, S], float32.
        sigmas: [B], standard deviations in pixels; 0 leaves an image as it is.
    """
    size = images.shape[-1]
    pixels = torch.arange(size, device=images.device)
    squares = (pixels[:, None] - pixels) ** 2  # [S, S]
    precisions = 0.5 / sigmas.clamp(min=1e-3) ** 2  # [B]; at 1e-3 pixels the neighbours' weight is exactly zero
    kernels = torch.exp(-squares * precisions[:, None, None])  # [B, S, S]
    kernels = kernels / kernels.sum(dim=-1, keepdim=True)
    return apply_separable(images, kernels, kernels)
