"""Losses that match a prediction to a target: BYOL's and I-JEPA's."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

# B images, P projection, N tokens, D embedding


def normalized_distance(predictions: Tensor, targets: Tensor) -> Tensor:
    """Mean squared distance between unit vectors, 2 - 2 cos: 0 when they agree, 2 when orthogonal, 4 when opposite.

    Args:
        predictions: [B, P], any scale.
        targets: [B, P], any scale, no gradient.

    Returns:
        Scalar.

    Paper: BYOL, arXiv 2006.07733, eq. 2. The authors bound the squared norm by 1e-12 (utils/helpers.py:109).
    """
    predictions = F.normalize(predictions.float(), dim=-1, eps=1e-6)
    targets = F.normalize(targets.float(), dim=-1, eps=1e-6)
    return (predictions - targets).square().sum(-1).mean()


def token_regression(predictions: Tensor, targets: Tensor) -> Tensor:
    """Smooth L1 distance (beta 1), mean over blocks, images, tokens and channels.

    Args:
        predictions: [M, B, N, D].
        targets: [M, B, N, D], no gradient.

    Returns:
        Scalar.

    The I-JEPA code uses smooth L1 (src/train.py:307) where the paper, arXiv 2301.08243, section 3, says L2.
    """
    return F.smooth_l1_loss(predictions.float(), targets.float())
