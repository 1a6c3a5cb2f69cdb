"""BYOL: bootstrap your own latent (arXiv 2006.07733)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from spt.backbones.backbone import Backbone
from spt.losses.regression import normalized_distance
from spt.method import Method
from spt.schedules import Schedule
from spt.teacher_student import Branch, TeacherStudentWrapper
from spt.types import Batch, Progress, StepOutput

# B images per device, D embedding, P projection


class BYOL(Method):
    """The student (the paper's online network) predicts the teacher's (target's) projection of the other view.

    Args:
        backbone: gives embeddings.
        head: D to a projection head, [n, D] to [n, P].
        predictor: P to a prediction head, [n, P] to [n, P].
        projection_dim: P, the width between them.
        momentum: of the teacher at every optimizer step.
    """

    evaluates: ClassVar[Literal["student", "teacher"]] = "student"
    has_teacher: ClassVar[bool] = True
    has_batch_norm: ClassVar[bool] = True  # in the head and the predictor
    min_global_views: ClassVar[int] = 2

    def __init__(
        self, backbone: Backbone, *, head: Callable[..., nn.Module], predictor: Callable[..., nn.Module],
        projection_dim: int, momentum: Schedule,
    ) -> None:  # fmt: skip
        super().__init__()
        student = Branch(backbone, head(backbone.embed_dim, output_dim=projection_dim), statistics="own")
        self.networks = TeacherStudentWrapper(student, momentum=momentum, batch_norm="own")
        self.predictor = predictor(projection_dim, output_dim=projection_dim)

    def step(self, batch: Batch, progress: Progress) -> StepOutput:
        """Both views in turn as input and target; BatchNorm statistics are a view's own, in the predictor too."""
        with torch.no_grad():
            _, targets = self.networks.teacher(batch.global_views)  # [2, B, P]
        embeddings, projections = self.networks.student(batch.global_views)  # [2, B, D], [2, B, P]
        first, second = (self.predictor(view) for view in projections)  # [B, P]
        loss = normalized_distance(first, targets[1]) + normalized_distance(second, targets[0])
        return StepOutput(loss, embeddings[0].detach(), {})

    def embed(self, images: Tensor) -> Tensor:
        """The student's backbone, [B, D]: the authors evaluate the online network, not the target."""
        return self.evaluated([images], project=False).embeddings[0]
