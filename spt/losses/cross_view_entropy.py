"""DINO's loss and the center that keeps its teacher from collapsing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spt.distributed.gather import sum_over_ranks

# B images per device, V views of the teacher, S views of the student, K prototypes


def cross_view_entropy(student_logits: Tensor, targets: Tensor, *, temperature: float) -> Tensor:
    """Mean cross-entropy between every student view and every teacher view, a view with itself left out.

    Args:
        student_logits: [S, B, K], any scale; S >= V, and the first V views are the teacher's.
        targets: [V, B, K], probabilities (sum to 1 over K), no gradient.
        temperature: > 0; divides the student's logits. Smaller is sharper.

    Returns:
        Scalar, in nats.

    Raises:
        ValueError: fewer than two views in all: no pair is left.

    Equals, for every image b, the mean over s != t of
        -sum_k targets[t, b, k] * log softmax(student_logits[s, b] / temperature)[k]
    Paper: DINO, arXiv 2104.14294, eq. 3.
    """
    num_student, num_teacher = len(student_logits), len(targets)
    if num_student < 2:
        raise ValueError(f"{num_student} view leaves no pair of different views; give at least two.")
    log_probabilities = torch.log_softmax(student_logits.float() / temperature, dim=-1)  # [S, B, K]
    # all pairs at once: every student view meets the sum of the targets, then each view's meeting with itself is
    # taken back
    all_pairs = (targets.sum(0) * log_probabilities).sum()
    own_pairs = (targets * log_probabilities[:num_teacher]).sum()
    num_pairs = num_teacher * num_student - num_teacher
    return (own_pairs - all_pairs) / (num_pairs * student_logits.shape[1])


class Center(nn.Module):
    """Teacher logits to targets, less a running mean of the logits.

    Args:
        num_prototypes: K.
        momentum: share of the old center that stays at each optimizer step.

    Paper: DINO, arXiv 2104.14294, section 3.1 and eq. 4.
    """

    center: Tensor
    pending_sum: Tensor
    pending_count: Tensor

    def __init__(self, num_prototypes: int, *, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("center", torch.zeros(num_prototypes))
        # empty between optimizer steps, when checkpoints are written
        self.register_buffer("pending_sum", torch.zeros(num_prototypes), persistent=False)
        self.register_buffer("pending_count", torch.zeros(()), persistent=False)

    def forward(self, logits: Tensor, temperature: float) -> Tensor:
        """Targets [V, B, K], probabilities in float32, from teacher logits [V, B, K]."""
        return torch.softmax((logits.float() - self.center.float()) / temperature, dim=-1)

    @torch.no_grad()
    def collect(self, logits: Tensor) -> None:
        """Takes note of the teacher logits [V, B, K] of one micro-batch. The center itself moves in `update`."""
        rows = logits.float().flatten(0, -2)
        self.pending_sum += rows.sum(0)
        self.pending_count += len(rows)

    @torch.no_grad()
    def update(self) -> None:
        """Moves the center once by what was collected, over all micro-batches and processes."""
        mean = sum_over_ranks(self.pending_sum) / sum_over_ranks(self.pending_count)
        self.center.lerp_(mean.to(self.center.dtype), 1.0 - self.momentum)
        self.discard()

    @torch.no_grad()
    def discard(self) -> None:
        """Forgets what was collected."""
        self.pending_sum.zero_()
        self.pending_count.zero_()
