"""The teacher follows the student, and only so."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from timm.layers import DropPath
from torch import Tensor, nn

from spt.teacher_student import Branch, TeacherStudentWrapper
from spt.types import Features, Progress

FIRST = Progress(0, 10, 5)


def constant(value: float) -> Callable[[Progress], float]:
    return lambda progress: value


class TinyBackbone(nn.Module):
    """Pools, then a Linear, BatchNorm, drop-path and dropout."""

    embed_dim = 6

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), DropPath(0.5), nn.Dropout(0.5))
        self.seen: list[tuple[int, ...]] = []

    def forward(self, images: Tensor) -> Features:
        self.seen.append(tuple(images.shape))
        return Features(self.layer(images.mean((2, 3))), None)


def test_first_update_uses_the_students_weights_after_the_step() -> None:
    """Trap 1: .9 of the old teacher and .1 of the new student, not the old."""
    wrapper = TeacherStudentWrapper(nn.Linear(1, 1, bias=False), momentum=constant(0.9))
    before = wrapper.student.weight.item()
    optimizer = torch.optim.SGD(wrapper.student.parameters(), lr=1.0)
    wrapper.student.weight.grad = torch.ones(1, 1)
    optimizer.step()
    wrapper.update(FIRST)
    assert wrapper.teacher.weight.item() == pytest.approx(0.9 * before + 0.1 * (before - 1.0))


def test_the_kth_update_asks_for_the_momentum_of_step_k() -> None:
    """Trap 3."""
    asked: list[int] = []
    wrapper = TeacherStudentWrapper(nn.Linear(2, 3), momentum=lambda progress: asked.append(progress.step) or 0.5)
    for step in range(3):
        wrapper.update(Progress(step, 3, 3))
    assert asked == [0, 1, 2]


@pytest.mark.parametrize("batch_norm", ["copy", "average"])
def test_momentum_zero_copies_the_student_bit_for_bit_buffers_included(batch_norm: str) -> None:
    """Trap 8."""
    wrapper = TeacherStudentWrapper(TinyBackbone(), momentum=constant(0.0), batch_norm=batch_norm)
    for parameter in wrapper.student.parameters():
        parameter.data.normal_()
    wrapper.student(torch.randn(4, 3, 2, 2))
    wrapper.update(FIRST)
    assert wrapper.student.state_dict().keys() == wrapper.teacher.state_dict().keys()
    for name, value in wrapper.student.state_dict().items():
        assert torch.equal(value, wrapper.teacher.state_dict()[name]), name


def test_running_statistics_follow_the_stated_policy() -> None:
    """Traps 8 and 9: own stays the teacher's, copy is the student's, average lies between; counters are copied."""
    images = torch.randn(4, 3, 2, 2)
    means = {}
    for policy in ("own", "copy", "average"):
        wrapper = TeacherStudentWrapper(TinyBackbone(), momentum=constant(0.5), batch_norm=policy)
        wrapper.student.layer[0].bias.data.fill_(8.0)
        wrapper.student(images)
        wrapper.teacher(images)
        own = wrapper.teacher.layer[1].running_mean.clone()
        wrapper.update(FIRST)
        means[policy] = (own, wrapper.student.layer[1].running_mean, wrapper.teacher.layer[1].running_mean)
        assert wrapper.teacher.layer[1].num_batches_tracked.item() == 1
    own, student, teacher = means["own"]
    assert torch.equal(teacher, own)
    assert not torch.equal(teacher, student)
    own, student, teacher = means["copy"]
    assert torch.equal(teacher, student)
    own, student, teacher = means["average"]
    assert torch.allclose(teacher, (own + student) / 2)


def test_two_teacher_forwards_in_train_mode_are_bit_equal() -> None:
    """Trap 10: drop-path and dropout are off in the teacher and on in the student."""
    wrapper = TeacherStudentWrapper(TinyBackbone(), momentum=constant(0.9)).train()
    images = torch.randn(4, 3, 2, 2)
    assert torch.equal(wrapper.teacher(images).embeddings, wrapper.teacher(images).embeddings)
    assert not torch.equal(wrapper.student(images).embeddings, wrapper.student(images).embeddings)


def test_teacher_starts_equal_shares_no_storage_and_takes_no_gradient() -> None:
    """Traps 11, 12 and 20."""
    wrapper = TeacherStudentWrapper(TinyBackbone(), momentum=constant(0.9))
    student, teacher = dict(wrapper.student.state_dict()), dict(wrapper.teacher.state_dict())
    assert all(torch.equal(student[name], teacher[name]) for name in student)
    assert not {t.data_ptr() for t in student.values()} & {t.data_ptr() for t in teacher.values()}
    assert not any(parameter.requires_grad for parameter in wrapper.teacher.parameters())


def test_without_a_teacher_the_student_is_the_teacher_and_is_saved_once() -> None:
    wrapper = TeacherStudentWrapper(nn.Linear(2, 3), momentum=None)
    assert wrapper.teacher is wrapper.student
    assert list(wrapper.state_dict()) == ["student.weight", "student.bias"]
    before = copy.deepcopy(wrapper.state_dict())
    wrapper.update(FIRST)
    assert all(torch.equal(before[name], value) for name, value in wrapper.state_dict().items())


def test_a_high_momentum_still_moves_float32_weights() -> None:
    """Trap 13: in bfloat16 this average never leaves its start, so bf16-true with a teacher is refused by rule."""
    wrapper = TeacherStudentWrapper(nn.Linear(1, 1, bias=False), momentum=constant(0.999))
    wrapper.teacher.weight.data.fill_(1.0)
    wrapper.student.weight.data.fill_(1.5)
    for _ in range(2000):
        wrapper.update(FIRST)
    assert wrapper.teacher.weight.item() == pytest.approx(1.5 - 0.5 * 0.999**2000, abs=1e-3)


@pytest.mark.parametrize("change", ["double", "assign", "copy", "replace"])
def test_updates_reach_the_weights_that_are_there_now(change: str) -> None:
    """Where parameters lie is looked up once; what lies there may change between two steps."""
    wrapper = TeacherStudentWrapper(nn.Linear(3, 2), momentum=lambda progress: 0.5)
    with torch.no_grad():
        wrapper.student.weight.fill_(1.0)
        wrapper.teacher.weight.fill_(0.0)
    wrapper.update(FIRST)
    other = wrapper
    if change == "double":
        wrapper.double()
    elif change == "assign":
        wrapper.load_state_dict({name: value.clone() for name, value in wrapper.state_dict().items()}, assign=True)
    elif change == "copy":
        other = copy.deepcopy(wrapper)
    else:
        wrapper.teacher.weight = nn.Parameter(wrapper.teacher.weight.detach().clone())
    other.update(FIRST)
    assert torch.equal(other.teacher.weight, torch.full_like(other.teacher.weight, 0.75))
    assert wrapper.teacher.weight[0, 0].item() == (0.5 if change == "copy" else 0.75)


def test_views_of_one_size_share_a_forward_and_outputs_keep_the_order_of_views() -> None:
    """Trap 78: the value of a view is its number."""

    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.batches: list[int] = []

        def forward(self, images: Tensor) -> Features:
            self.batches.append(len(images))
            return Features(images.mean((2, 3)), None)

    backbone = Mean()
    views = [torch.full((4, 3, size, size), float(number)) for number, size in enumerate([8, 8, 6, 6, 6])]
    embeddings, projections = Branch(backbone, nn.Identity())(views)
    assert backbone.batches == [8, 12]
    assert embeddings.shape == (5, 4, 3)
    assert embeddings[:, 2, 1].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert torch.equal(embeddings, projections)


def test_embeddings_without_projections_never_call_the_head() -> None:
    class Refuses(nn.Module):
        def forward(self, embeddings: Tensor) -> Tensor:
            raise AssertionError("called")

    branch = Branch(TinyBackbone().eval(), Refuses())
    embeddings, projections = branch([torch.zeros(4, 3, 2, 2)], project=False)
    assert embeddings.shape == (1, 4, 6)
    assert projections.shape == (1, 4, 0)


@pytest.mark.parametrize("statistics", ["joint", "own"])
@pytest.mark.parametrize("normalises", ["backbone", "head", "neither"])
def test_own_statistics_equal_a_forward_for_every_view_and_joint_ones_do_not(statistics: str, normalises: str) -> None:
    """Traps 9 and 31. Only what holds BatchNorm is called view by view."""
    torch.manual_seed(0)
    backbone = TinyBackbone()
    backbone.layer = backbone.layer[:2] if normalises == "backbone" else backbone.layer[:1]  # no dropout
    head = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5) if normalises == "head" else nn.Identity())
    branch = Branch(backbone, head, statistics=statistics)  # type: ignore[arg-type]
    apart = copy.deepcopy(branch)
    views = [torch.randn(4, 3, 2, 2), torch.randn(4, 3, 2, 2) + 9.0]
    calls: list[str] = []
    backbone.register_forward_hook(lambda *_: calls.append("backbone"))
    head.register_forward_hook(lambda *_: calls.append("head"))
    embeddings, projections = branch(views)
    outputs = [apart([view]) for view in views]
    is_equal = torch.allclose(projections, torch.cat([output.projections for output in outputs]), atol=1e-4)
    is_equal &= torch.allclose(embeddings, torch.cat([output.embeddings for output in outputs]), atol=1e-4)
    is_equal &= all(torch.allclose(a, b, atol=1e-5) for a, b in zip(branch.buffers(), apart.buffers(), strict=True))
    assert is_equal == (statistics == "own" or normalises == "neither")
    split = {part for part in ("backbone", "head") if part == normalises and statistics == "own"}
    assert {part: calls.count(part) for part in ("backbone", "head")} == {
        part: 2 if part in split else 1 for part in ("backbone", "head")
    }


def test_one_view_at_a_time_has_batch_norm_statistics_of_its_own() -> None:
    """Trap 31."""
    branch = Branch(TinyBackbone(), nn.Identity())
    apart = copy.deepcopy(branch)
    views = [torch.randn(4, 3, 2, 2), torch.randn(4, 3, 2, 2) + 9.0]
    branch(views)
    for view in views:
        apart([view])
    together, separate = branch.backbone.layer[1], apart.backbone.layer[1]
    assert (together.num_batches_tracked.item(), separate.num_batches_tracked.item()) == (1, 2)
    assert together.running_var.mean() > 2 * separate.running_var.mean()
