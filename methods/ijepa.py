"""I-JEPA: self-supervised learning from images with a joint-embedding predictive architecture (arXiv 2301.08243)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spt.backbones.backbone import TokenBackbone
from spt.losses.regression import token_regression
from spt.method import Method
from spt.schedules import Schedule
from spt.teacher_student import TeacherStudentWrapper
from spt.types import Batch, Progress, StepOutput

# B images per device, M target blocks, N tokens, D embedding


class IJEPA(Method):
    """From the tokens of a context, predicts the teacher's tokens of hidden blocks.

    Args:
        backbone: gives tokens, computing only those that are kept.
        predictor: width, heads and grid of the backbone to a predictor, (tokens, context, targets) to
            [M, B, N_target, D].
        momentum: of the teacher (the paper's target encoder) at every optimizer step.
    """

    evaluates: ClassVar[Literal["student", "teacher"]] = "teacher"
    has_teacher: ClassVar[bool] = True
    needs_tokens: ClassVar[bool] = True
    needs_masks: ClassVar[bool] = True

    def __init__(self, backbone: TokenBackbone, *, predictor: Callable[..., nn.Module], momentum: Schedule) -> None:
        super().__init__()
        self.networks = TeacherStudentWrapper(backbone, momentum=momentum)
        self.predictor = predictor(
            embed_dim=backbone.embed_dim, num_heads=backbone.num_heads, grid=backbone.reference_grid
        )

    def step(self, batch: Batch, progress: Progress) -> StepOutput:
        """Smooth L1 between predicted tokens and the teacher's, normalised per token without affine."""
        images, masks = batch.global_views[0], batch.masks
        assert masks is not None, "the rules refuse I-JEPA without masks"
        with torch.no_grad():
            embeddings, tokens = self.networks.teacher(images)  # [B, D], [B, N, D]
            tokens = F.layer_norm(tokens.float(), tokens.shape[-1:])
            targets = torch.stack([_tokens_at(tokens, block) for block in masks.targets])  # [M, B, N_target, D]
        _, seen = self.networks.student(images, keep=masks.context)  # [B, N_context, D]
        loss = token_regression(self.predictor(seen, masks.context, masks.targets), targets)
        return StepOutput(loss, embeddings, {"train/context_tokens": float(masks.context.shape[1])})

    def embed(self, images: Tensor) -> Tensor:
        """The mean of the teacher's patch tokens, [B, D]."""
        return self.evaluated(images).embeddings


def _tokens_at(tokens: Tensor, positions: Tensor) -> Tensor:
    """The tokens [B, n, D] of [B, N, D] at positions [B, n]."""
    return tokens.gather(1, positions[..., None].expand(-1, -1, tokens.shape[-1]))
