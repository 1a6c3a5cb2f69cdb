"""The network being pretrained and its slowly following copy."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import groupby
from typing import Literal

import torch
from timm.layers import DropPath
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from spt.backbones.backbone import embeddings_of
from spt.distributed.shards import LocalParameters
from spt.schedules import Schedule
from spt.types import BranchOutput, Progress

# B images per device, V views, D embedding, P projection


class Branch(nn.Module):
    """A backbone and its head as one network with one forward: what is averaged, sharded and saved as a whole.

    Args:
        backbone: images [B, 3, S, S] to Features.
        head: [n, D] to [n, P].
        statistics: what BatchNorm averages over: "joint": all views that share a forward (SimCLR, DINO); "own": each
            view for itself (BYOL), as if every view had a forward of its own.
    """

    def __init__(self, backbone: nn.Module, head: nn.Module, *, statistics: Literal["joint", "own"] = "joint") -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.statistics = statistics
        # without BatchNorm images do not see each other, and views may share a forward, which is faster
        self._splits_backbone = statistics == "own" and _has_batch_norm(backbone)
        self._splits_head = statistics == "own" and _has_batch_norm(head)

    def forward(self, views: Sequence[Tensor], *, project: bool = True) -> BranchOutput:
        """Embeddings and projections of all views, in their order.

        Args:
            views: V tensors [B, 3, S, S]; neighbours of equal size share one backbone forward, and all share one head
                forward, where `statistics` allows it.
            project: False leaves the head out; projections are then [V, B, 0].
        """
        if self._splits_backbone:
            batches = list(views)
        else:
            batches = [torch.cat(list(alike)) for _, alike in groupby(views, key=lambda view: view.shape[-2:])]
        embeddings = torch.cat([embeddings_of(self.backbone, batch) for batch in batches])  # [VB, D]
        if not project:
            projections = embeddings.new_empty(len(embeddings), 0)
        elif self._splits_head:
            projections = torch.cat([self.head(rows) for rows in embeddings.chunk(len(views))])  # [VB, P]
        else:
            projections = self.head(embeddings)  # [VB, P]
        # copies, not another view of the same storage: fully_shard hangs its hooks on what comes out
        return BranchOutput(*(torch.stack(rows.chunk(len(views))) for rows in (embeddings, projections)))


class TeacherStudentWrapper(nn.Module):
    """A student and, where the method has one, its teacher: an exponential moving average of the student's weights.

    The papers call the pair student/teacher (DINO), online/target (BYOL), context/target encoder (I-JEPA). The
    teacher starts equal to the student, shares no storage with it, takes no gradient, and has drop-path and dropout
    off. Without a teacher `teacher is student`, and no memory is spent.

    Args:
        student: any network.
        momentum: teacher <- m * teacher + (1 - m) * student after optimizer step k, with m = momentum(k), k from 0;
            None for methods without a teacher.
        batch_norm: what happens to buffers such as BatchNorm's running statistics. "own": the teacher keeps those of
            its own forwards (DINO, BYOL); "copy": the student's are copied; "average": they follow like weights.
            Integer buffers are copied, never averaged.
    """

    def __init__(
        self, student: nn.Module, *, momentum: Schedule | None, batch_norm: Literal["own", "copy", "average"] = "own"
    ) -> None:
        super().__init__()
        self.student = student
        self.momentum = momentum
        self.batch_norm = batch_norm
        self._found: tuple[tuple[object, ...], tuple[LocalParameters, LocalParameters]] | None = None
        if momentum is None:
            # an alias that is not registered: state dicts and optimizers see the student once
            object.__setattr__(self, "teacher", student)
        else:
            self.teacher = _follower(student)

    @property
    def has_teacher(self) -> bool:
        """Whether the teacher is a network of its own."""
        return self.momentum is not None

    @property
    def backbone(self) -> nn.Module:
        """Of the student: without its head."""
        return self.student.backbone if isinstance(self.student, Branch) else self.student

    @torch.no_grad()
    def update(self, progress: Progress) -> None:
        """Moves the teacher towards the student.

        To be called once per optimizer step, after it, before any checkpoint.
        """
        if self.momentum is None:
            return
        share = 1.0 - self.momentum(progress)  # a Python float: a tensor would be rounded to the weights' type
        teacher, student = self._pairs()
        torch._foreach_lerp_(teacher.now(), student.now(), share)
        if self.batch_norm != "own":
            self._follow_buffers(share if self.batch_norm == "average" else 1.0)

    def _pairs(self) -> tuple[LocalParameters, LocalParameters]:
        """Parameters of teacher and student, in one order."""
        # sharding changes the class of both, and what was found before it would miss its units
        networks = (self.teacher, type(self.teacher), self.student, type(self.student))
        if self._found is None or self._found[0] != networks:
            self._found = (networks, (LocalParameters(self.teacher), LocalParameters(self.student)))
        return self._found[1]

    def _follow_buffers(self, share: float) -> None:
        for teacher, student in zip(self.teacher.buffers(), self.student.buffers(), strict=True):
            if teacher.is_floating_point():
                teacher.lerp_(student, share)
            else:
                teacher.copy_(student)


def _has_batch_norm(network: nn.Module) -> bool:
    return any(isinstance(module, _BatchNorm) for module in network.modules())


def _follower(student: nn.Module) -> nn.Module:
    teacher = copy.deepcopy(student).requires_grad_(False)
    for module in teacher.modules():
        if isinstance(module, DropPath):
            module.drop_prob = 0.0
        elif isinstance(module, nn.Dropout):
            module.p = 0.0
    return teacher
