"""SimCLR's contrastive loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from spt.distributed.gather import gather_rows, rank

# B images per device, W processes, P projection


def nt_xent(first: Tensor, second: Tensor, *, temperature: float) -> Tensor:
    """Normalised temperature-scaled cross-entropy: each view must find its partner among all others.

    Args:
        first: [B, P], projections of one view of each image, any scale.
        second: [B, P], of the other view.
        temperature: > 0; divides the cosine similarities.

    Returns:
        Scalar, in nats: the mean over images of the *sum* of both directions, as the authors have it (objective.py:88),
        hence twice the mean over the 2B views. Negatives come from all W processes, gradient included.

    Equals, with z the normalised rows of all views and s = z z^T / temperature:
        mean over images i of CE(s[first_i, all but first_i], second_i) + CE(s[second_i, all but second_i], first_i)
    Paper: SimCLR, arXiv 2002.05709, eq. 1.
    """
    with torch.autocast(first.device.type, enabled=False):  # matrix products would run in half precision
        first, second = F.normalize(first.float(), dim=-1), F.normalize(second.float(), dim=-1)
        all_first, all_second = gather_rows(first), gather_rows(second)  # [WB, P]
        # columns of this process's images among those of all
        positives = torch.arange(len(first), device=first.device) + rank() * len(first)
        forth = _one_direction(first, all_first, all_second, positives, temperature)
        back = _one_direction(second, all_second, all_first, positives, temperature)
    return forth + back


def _one_direction(queries: Tensor, same: Tensor, other: Tensor, positives: Tensor, temperature: float) -> Tensor:
    to_other = queries @ other.T / temperature  # [B, WB]
    to_same = queries @ same.T / temperature  # [B, WB]
    itself = F.one_hot(positives, len(same)).bool()
    to_same = to_same.masked_fill(itself, torch.finfo(to_same.dtype).min)
    return F.cross_entropy(torch.cat([to_other, to_same], dim=1), positives)
