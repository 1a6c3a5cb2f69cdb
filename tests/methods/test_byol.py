"""BYOL's step."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from methods.byol import BYOL
from spt.heads.projection import BYOLHead
from spt.losses.regression import normalized_distance
from spt.schedules import Cosine
from spt.testing import LATER_STEP, check_method
from tests.methods.batches import TinyConvNet, batch, tiny_vit

HEAD = partial(BYOLHead, hidden_dim=16)


def byol(backbone: nn.Module | None = None) -> BYOL:
    torch.manual_seed(0)
    momentum = Cosine(start=0.9, end=1.0, counting="from_zero")
    return BYOL(backbone or TinyConvNet(), head=HEAD, predictor=HEAD, projection_dim=6, momentum=momentum)


def test_byol_keeps_the_contract_on_a_convolutional_network_and_a_vit() -> None:
    check_method(byol(), batch())
    check_method(byol(tiny_vit()), batch())


def test_every_view_has_its_own_forward_in_both_networks() -> None:
    """Traps 9 and 31: statistics of a view's own, and the teacher keeps those of its own forwards."""
    method = byol()
    method.step(batch(), LATER_STEP)
    student, teacher = (net.backbone.layers[1] for net in (method.networks.student, method.networks.teacher))
    assert student.num_batches_tracked.item() == 2
    assert teacher.num_batches_tracked.item() == 2
    method.networks.student.backbone.layers[0].bias.data.fill_(7.0)
    method.step(batch(), LATER_STEP)
    assert not torch.allclose(student.running_mean, teacher.running_mean)


def test_each_view_predicts_the_other_views_target() -> None:
    """Trap 30."""
    method, views = byol(), batch()
    student = [method.networks.student([view]).projections[0] for view in views.global_views]
    teacher = [method.networks.teacher([view]).projections[0] for view in views.global_views]
    crossed = sum(normalized_distance(method.predictor(student[i]), teacher[1 - i]) for i in range(2))
    straight = sum(normalized_distance(method.predictor(student[i]), teacher[i]) for i in range(2))
    loss = method.step(views, LATER_STEP).loss
    assert torch.allclose(loss, crossed)
    assert not torch.allclose(loss, straight)


def test_loss_lies_near_four_at_the_start() -> None:
    """Trap 29: the sum of two directions, each near 2 for unrelated vectors."""
    assert 2.5 < byol().step(batch(images=32), LATER_STEP).loss.item() < 5.5


def test_evaluated_network_is_the_student() -> None:
    """Trap 80."""
    method, images = byol().eval(), batch().global_views[0]
    for parameter in method.networks.teacher.parameters():
        parameter.data.fill_(float("nan"))
    assert torch.equal(method.embed(images), method.networks.student.backbone(images).embeddings)


def test_predictor_has_no_twin_and_takes_the_gradient() -> None:
    """Trap 37."""
    method = byol()
    method.step(batch(), LATER_STEP).loss.backward()
    assert all(parameter.grad is not None for parameter in method.predictor.parameters())
    assert not [name for name, _ in method.networks.named_parameters() if "predictor" in name]


def test_targets_carry_no_gradient_to_the_images() -> None:
    """Trap 30: a view reaches the loss through the student, never through the teacher's targets."""
    method, views = byol(), batch()
    first = views.global_views[0].requires_grad_()
    target = method.networks.teacher([views.global_views[1]]).projections[0].detach()
    prediction = method.predictor(method.networks.student([first]).projections[0])
    (expected,) = torch.autograd.grad(normalized_distance(prediction, target), first)
    (found,) = torch.autograd.grad(method.step(views, LATER_STEP).loss, first)
    assert torch.allclose(found, expected, atol=1e-6)
