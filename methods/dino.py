"""DINO: emerging properties in self-supervised vision transformers (arXiv 2104.14294)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor

from spt.backbones.backbone import Backbone
from spt.heads.projection import DINOHead
from spt.losses.cross_view_entropy import Center, cross_view_entropy
from spt.method import Method
from spt.schedules import Schedule
from spt.teacher_student import Branch, TeacherStudentWrapper
from spt.types import Batch, Progress, StepOutput

# B images per device, V global views, L local views, D embedding, K prototypes


class DINO(Method):
    """The student matches, from every crop, the teacher's centered and sharpened view of every other global crop.

    Args:
        backbone: gives embeddings.
        head: D and K to a head with a `last_layer`, [n, D] to [n, K].
        num_prototypes: K.
        student_temperature: divides the student's logits.
        teacher_temperature: divides the teacher's, at every optimizer step.
        center_momentum: share of the old center that stays.
        momentum: of the teacher at every optimizer step.
        freeze_last_layer_epochs: passes over the data in which the prototypes do not move.
    """

    evaluates: ClassVar[Literal["student", "teacher"]] = "teacher"
    has_teacher: ClassVar[bool] = True
    needs_local_views: ClassVar[bool] = True
    drops_gradients: ClassVar[bool] = True
    min_global_views: ClassVar[int] = 2

    def __init__(
        self, backbone: Backbone, *, head: Callable[..., DINOHead], num_prototypes: int, student_temperature: float,
        teacher_temperature: Schedule, center_momentum: float, momentum: Schedule, freeze_last_layer_epochs: int,
    ) -> None:  # fmt: skip
        super().__init__()
        student = Branch(backbone, head(backbone.embed_dim, num_prototypes=num_prototypes))
        self.networks = TeacherStudentWrapper(student, momentum=momentum, batch_norm="own")
        self.center = Center(num_prototypes, momentum=center_momentum)
        self.student_temperature = student_temperature
        self.teacher_temperature = teacher_temperature
        self.freeze_last_layer_epochs = freeze_last_layer_epochs

    def step(self, batch: Batch, progress: Progress) -> StepOutput:
        """Cross-entropy between every crop of the student and the teacher's other global crops."""
        temperature = self.teacher_temperature(progress)
        with torch.no_grad():
            embeddings, teacher_logits = self.networks.teacher(batch.global_views)  # [V, B, D], [V, B, K]
            targets = self.center(teacher_logits, temperature)  # [V, B, K], sums to 1 over K
            self.center.collect(teacher_logits)
        _, student_logits = self.networks.student([*batch.global_views, *batch.local_views])  # [V + L, B, K]
        loss = cross_view_entropy(student_logits, targets, temperature=self.student_temperature)
        metrics: dict[str, Tensor | float] = {
            "train/teacher_temperature": temperature,
            "collapse/teacher_entropy": _entropy(targets),
        }
        return StepOutput(loss, embeddings[0], metrics)

    def drop_gradients(self, progress: Progress) -> None:
        """Keeps the prototypes, their decay and their moments untouched in the first epochs (main_dino.py:340)."""
        if progress.epoch < self.freeze_last_layer_epochs:
            for name, parameter in self.networks.student.named_parameters():
                if "last_layer" in name:
                    parameter.grad = None

    def finish_step(self, progress: Progress) -> None:
        """Moves the teacher and the center, once per optimizer step."""
        super().finish_step(progress)
        self.center.update()

    def leave_out_step(self) -> None:
        """Forgets the logits of a step that was not taken: the center moves as often as the teacher."""
        self.center.discard()

    def embed(self, images: Tensor) -> Tensor:
        """The teacher's backbone, [B, D]."""
        return self.evaluated([images], project=False).embeddings[0]


def _entropy(targets: Tensor) -> Tensor:
    """Mean entropy of targets [V, B, K], a scalar in nats: ln K when all prototypes are alike, 0 when one takes all."""
    return torch.special.entr(targets).sum(-1).mean()
