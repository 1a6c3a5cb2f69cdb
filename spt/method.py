"""The contract of a method: what spt asks of methods/*.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from torch import Tensor, nn

from spt.teacher_student import TeacherStudentWrapper
from spt.types import Batch, Progress, StepOutput


class Method(nn.Module, ABC):
    """A self-supervised method: how views become a loss.

    A method owns its networks and losses; it knows no trainer, optimizer, config or label. The class attributes are
    facts that the rules read without importing torch, so they must be literals.

    Attributes:
        evaluates: the network that `embed` asks, and that probes, exports and `backbone.init_from` mean.
        has_teacher: the wrapper keeps an averaged copy of the student.
        needs_tokens: the backbone must give tokens and take `keep`.
        needs_masks: `Batch.masks` must be there.
        needs_local_views: the step uses `Batch.local_views` when there are any.
        contrasts_batch: negatives come from the batch, so a smaller batch (or micro-batch) changes the loss.
        drops_gradients: freezes layers by dropping their gradient (`drop_gradients` does something).
        has_batch_norm: heads or predictors hold BatchNorm, whatever the backbone.
        skips_parameters: some steps leave trainable parameters without a gradient.
        min_global_views: `Batch.global_views` that the loss needs.
    """

    evaluates: ClassVar[Literal["student", "teacher"]] = "student"
    has_teacher: ClassVar[bool] = False
    needs_tokens: ClassVar[bool] = False
    needs_masks: ClassVar[bool] = False
    needs_local_views: ClassVar[bool] = False
    contrasts_batch: ClassVar[bool] = False
    drops_gradients: ClassVar[bool] = False
    has_batch_norm: ClassVar[bool] = False
    skips_parameters: ClassVar[bool] = False
    min_global_views: ClassVar[int] = 1

    networks: TeacherStudentWrapper

    @property
    def evaluated(self) -> nn.Module:
        """The network that `evaluates` names."""
        return self.networks.teacher if self.evaluates == "teacher" else self.networks.student

    @abstractmethod
    def step(self, batch: Batch, progress: Progress) -> StepOutput:
        """Loss of one (micro-)batch. Gradients reach the student and predictors, nothing else."""

    @abstractmethod
    def embed(self, images: Tensor) -> Tensor:
        """Embeddings [B, D] of normalised images [B, 3, S, S], from the layer of `evaluated` that the authors use.

        The caller chooses eval mode and switches gradients off.
        """

    def drop_gradients(self, progress: Progress) -> None:
        """Sets to None the gradients of layers that are frozen at this step.

        Called after clipping, before the optimizer.
        """

    def finish_step(self, progress: Progress) -> None:
        """Moves what follows the student: called once per optimizer step, after it, before any checkpoint."""
        self.networks.update(progress)

    def leave_out_step(self) -> None:
        """Forgets what `step` has collected: float16 gradients overflowed, and the optimizer did not move the student.

        Called in the place of `finish_step`.
        """
