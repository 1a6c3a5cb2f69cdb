"""Gaussian blur of a batch in which every image has a width of its own."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from spt.views.resample import apply_separable

# B images per device, S pixels

_NOTHING = 1e-20  # weights below are beyond float32's digits; processors take ten times as long over the smallest
_REACH = 5.7  # standard deviations to where a weight is 1e-7 of the largest
_BLOCK = 56  # pixels blurred by one product: what lies out of their reach costs nothing


def gaussian_blur(images: Tensor, sigmas: Tensor) -> Tensor:
    """Images blurred with a sampled Gaussian that is not cut off; what lies beyond the edge has no weight.

    Args:
        images: [B, C, S, S], float32.
        sigmas: [B], standard deviations in pixels; 0 leaves an image as it is.
    """
    size = images.shape[-1]
    block = reach = size
    if images.device.type == "cpu" and len(images) > 0:  # another device would have to be waited for
        block, reach = _BLOCK, math.ceil(_REACH * float(sigmas.max()))
    if block >= size:
        kernels = _kernels(slice(0, size), slice(0, size), sigmas)
        return apply_separable(images, kernels, kernels)
    halfway, blurred = torch.empty_like(images), torch.empty_like(images)
    blocks = []
    for start in range(0, size, block):
        pixels = slice(start, min(start + block, size))
        near = slice(max(start - reach, 0), min(start + block + reach, size))
        blocks.append((pixels, near, _kernels(pixels, near, sigmas)))
    for pixels, near, kernels in blocks:
        halfway[:, :, pixels] = kernels[:, None] @ images[:, :, near]
    for pixels, near, kernels in blocks:
        # all rows of an image in one product
        rows = halfway[..., near].flatten(1, 2) @ kernels.transpose(1, 2)
        blurred[..., pixels] = rows.unflatten(1, images.shape[1:3])
    return blurred


def _kernels(pixels: slice, near: slice, sigmas: Tensor) -> Tensor:
    """What some pixels of a row take from those near them: [B, pixels, near]."""
    centers, others = (torch.arange(some.start, some.stop, device=sigmas.device) for some in (pixels, near))
    squares = (centers[:, None] - others).square()
    precisions = 0.5 / sigmas.clamp(min=1e-3) ** 2  # [B]; at 1e-3 pixels the neighbours' weight is exactly zero
    exponents = (squares * -precisions[:, None, None]).clamp_(min=math.log(_NOTHING) - 1)
    weights = F.threshold(exponents.exp_(), _NOTHING, 0.0)
    return weights.div_(weights.sum(dim=-1, keepdim=True))
