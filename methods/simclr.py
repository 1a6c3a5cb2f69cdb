"""SimCLR: a simple framework for contrastive learning of visual representations (arXiv 2002.05709)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from spt.backbones.backbone import Backbone
from spt.losses.nt_xent import nt_xent
from spt.method import Method
from spt.teacher_student import Branch, TeacherStudentWrapper
from spt.types import Batch, Progress, StepOutput

# B images per device, D embedding, P projection


class SimCLR(Method):
    """Two views of an image attract each other; all other views of the global batch repel both.

    Args:
        backbone: gives embeddings.
        head: D to a projection head, [n, D] to [n, P].
        temperature: divides the cosine similarities.
    """

    contrasts_batch: ClassVar[bool] = True
    has_batch_norm: ClassVar[bool] = True  # in the head
    min_global_views: ClassVar[int] = 2

    def __init__(self, backbone: Backbone, *, head: Callable[[int], nn.Module], temperature: float) -> None:
        super().__init__()
        self.networks = TeacherStudentWrapper(Branch(backbone, head(backbone.embed_dim)), momentum=None)
        self.temperature = temperature

    def step(self, batch: Batch, progress: Progress) -> StepOutput:
        """NT-Xent of two views, which share one forward and its BatchNorm statistics."""
        embeddings, projections = self.networks.student(batch.global_views)  # [2, B, D], [2, B, P]
        loss = nt_xent(projections[0], projections[1], temperature=self.temperature)
        return StepOutput(loss, embeddings[0].detach(), {"train/contrastive_accuracy": _accuracy(projections)})

    def embed(self, images: Tensor) -> Tensor:
        """The backbone's output before the head, [B, D]."""
        return self.evaluated([images], project=False).embeddings[0]


@torch.no_grad()
def _accuracy(projections: Tensor) -> Tensor:
    """Share of images of this device whose second view is the nearest to their first, a scalar."""
    first, second = torch.nn.functional.normalize(projections.float(), dim=-1)  # [B, P] each
    return ((first @ second.T).argmax(1) == torch.arange(len(first), device=first.device)).float().mean()
