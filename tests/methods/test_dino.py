"""DINO's step."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import nn

from methods.dino import DINO
from spt.heads.projection import DINOHead
from spt.losses.cross_view_entropy import cross_view_entropy
from spt.schedules import Cosine, EpochWarmup
from spt.testing import FIRST_STEP, LATER_STEP, check_method
from tests.methods.batches import TinyConvNet, batch, tiny_vit

HEAD = partial(DINOHead, hidden_dim=16, bottleneck_dim=8, num_layers=3, batch_norm=False, freeze_norm=True)


def dino(backbone: nn.Module | None = None, prototypes: int = 12, **widths: int) -> DINO:
    torch.manual_seed(0)
    return DINO(
        backbone or tiny_vit(), head=partial(HEAD, **widths), num_prototypes=prototypes, student_temperature=0.1,
        teacher_temperature=EpochWarmup(start=0.04, end=0.07, warmup_epochs=3), center_momentum=0.9,
        momentum=Cosine(start=0.9, end=1.0, counting="from_zero"), freeze_last_layer_epochs=1,
    )  # fmt: skip


@pytest.mark.parametrize(("num_global", "num_local"), [(2, 0), (2, 3), (3, 1)])
def test_dino_keeps_the_contract_with_any_number_of_crops(num_global: int, num_local: int) -> None:
    check_method(dino(), batch(num_global, num_local))


def test_dino_keeps_the_contract_on_a_convolutional_network() -> None:
    check_method(dino(TinyConvNet()), batch(2, 2))


def test_teacher_sees_global_crops_only_and_the_student_sees_all() -> None:
    method = dino()
    seen: dict[str, list[int]] = {"student": [], "teacher": []}
    for name, network in (("student", method.networks.student), ("teacher", method.networks.teacher)):
        network.backbone.register_forward_pre_hook(lambda m, inputs, name=name: seen[name].append(len(inputs[0])))
    method.step(batch(2, 3), LATER_STEP)
    assert seen == {"student": [10, 15], "teacher": [10]}


def test_loss_uses_the_center_of_the_steps_before_and_this_steps_temperature() -> None:
    """Trap 21."""
    method, views = dino(), batch(2, 1)
    method.center.center.normal_()
    teacher = method.networks.teacher(views.global_views).projections
    student = method.networks.student([*views.global_views, *views.local_views]).projections
    targets = ((teacher - method.center.center) / 0.07).softmax(-1)
    expected = cross_view_entropy(student, targets, temperature=0.1)
    assert torch.allclose(method.step(views, LATER_STEP).loss, expected)


def test_center_moves_after_the_step_by_the_mean_of_the_global_logits() -> None:
    """Trap 22: over both views of all images."""
    method, views = dino(), batch(2, 2)
    logits = method.networks.teacher(views.global_views).projections  # [2, B, K]
    method.step(views, LATER_STEP)
    assert method.center.center.abs().max() == 0
    method.finish_step(LATER_STEP)
    assert torch.allclose(method.center.center, 0.1 * logits.flatten(0, 1).mean(0), atol=1e-6)


def test_prototypes_lose_their_gradient_in_the_first_epoch_only() -> None:
    """Trap 25: of the student, by None and not by zero."""
    method = dino()
    for progress, frozen in ((FIRST_STEP, True), (LATER_STEP, False)):
        method.zero_grad()
        method.step(batch(), progress).loss.backward()
        method.drop_gradients(progress)
        directions = method.networks.student.head.last_layer.parametrizations.weight.original1
        assert (directions.grad is None) == frozen
        assert method.networks.student.head.mlp[0].weight.grad is not None


def test_a_frozen_prototype_has_no_optimizer_state_and_does_not_decay() -> None:
    """Trap 25."""
    method = dino()
    directions = method.networks.student.head.last_layer.parametrizations.weight.original1
    before = directions.detach().clone()
    optimizer = torch.optim.AdamW([p for p in method.parameters() if p.requires_grad], lr=0.1, weight_decay=0.5)
    method.step(batch(), FIRST_STEP).loss.backward()
    method.drop_gradients(FIRST_STEP)
    optimizer.step()
    assert torch.equal(directions, before)
    assert directions not in optimizer.state


def test_loss_at_the_start_is_about_the_logarithm_of_the_number_of_prototypes() -> None:
    """Trap 11: and it is not pinned there, because the teacher is a network of its own."""
    method = dino(prototypes=4096, hidden_dim=256, bottleneck_dim=256)
    assert method.step(batch(2, 2), FIRST_STEP).loss.item() == pytest.approx(math.log(4096), rel=0.15)


def test_evaluated_network_is_the_teachers_class_token() -> None:
    """Trap 80."""
    method, images = dino().eval(), batch().global_views[0]
    for parameter in method.networks.student.parameters():
        parameter.data.fill_(float("nan"))
    assert torch.equal(method.embed(images), method.networks.teacher.backbone(images).embeddings)


def test_step_gives_probes_the_teachers_embedding_of_the_first_global_view() -> None:
    """Trap 80."""
    method, views = dino(), batch(2, 1)
    expected = method.networks.teacher([views.global_views[0]]).embeddings[0]
    assert torch.allclose(method.step(views, LATER_STEP).embeddings, expected, atol=1e-5)


def test_teacher_entropy_is_reported_in_nats() -> None:
    """Trap 41."""
    entropy = float(dino(prototypes=8).step(batch(), FIRST_STEP).metrics["collapse/teacher_entropy"])
    assert 0.0 < entropy <= math.log(8) + 1e-5
