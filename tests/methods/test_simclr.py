"""SimCLR's step."""

from __future__ import annotations

from functools import partial

import torch

from methods.simclr import SimCLR
from spt.heads.projection import SimCLRHead
from spt.losses.nt_xent import nt_xent
from spt.testing import LATER_STEP, check_method
from tests.methods.batches import TinyConvNet, batch, tiny_vit

HEAD = partial(SimCLRHead, hidden_dim=16, output_dim=6, num_layers=3)


def simclr() -> SimCLR:
    torch.manual_seed(0)
    return SimCLR(TinyConvNet(), head=HEAD, temperature=0.1)


def test_simclr_keeps_the_contract_on_a_convolutional_network_and_a_vit() -> None:
    check_method(simclr(), batch())
    check_method(SimCLR(tiny_vit(), head=HEAD, temperature=0.1), batch())


def test_views_are_concatenated_for_batch_norm() -> None:
    """Trap 31: SimCLR shares the statistics of both views, unlike BYOL."""
    method = simclr()
    method.step(batch(), LATER_STEP)
    assert method.networks.student.backbone.layers[1].num_batches_tracked.item() == 1


def test_loss_is_nt_xent_of_the_projections() -> None:
    method, views = simclr(), batch()
    projections = method.networks.student(views.global_views).projections
    expected = nt_xent(projections[0], projections[1], temperature=0.1)
    assert torch.allclose(method.step(views, LATER_STEP).loss, expected)


def test_evaluated_features_are_those_before_the_head() -> None:
    """Trap 80: never the projection."""
    method, images = simclr().eval(), batch().global_views[0]
    assert torch.equal(method.embed(images), method.networks.student.backbone(images).embeddings)
