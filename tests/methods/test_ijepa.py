"""I-JEPA's step."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F

from methods.ijepa import IJEPA
from spt.heads.masked_predictor import MaskedPredictor
from spt.schedules import Linear
from spt.testing import LATER_STEP, check_method
from tests.methods.batches import masked_batch, tiny_vit


def ijepa() -> IJEPA:
    torch.manual_seed(0)
    backbone = tiny_vit(class_token=False, positions="sincos", patch_embed_init="truncated_normal")
    predictor = partial(MaskedPredictor, predictor_dim=8, depth=2)
    return IJEPA(backbone, predictor=predictor, momentum=Linear(start=0.9, end=1.0, counting="from_zero"))


def test_ijepa_keeps_the_contract() -> None:
    check_method(ijepa(), masked_batch())


def test_student_computes_the_context_only_and_the_teacher_all_tokens() -> None:
    """Trap 79."""
    method = ijepa()
    seen: dict[str, int] = {}
    for name, network in (("student", method.networks.student), ("teacher", method.networks.teacher)):
        block = network.network.blocks[0]
        block.register_forward_pre_hook(lambda m, inputs, name=name: seen.update({name: inputs[0].shape[1]}))
    method.step(masked_batch(), LATER_STEP)
    assert seen == {"student": 4, "teacher": 9}


def test_loss_is_smooth_l1_to_the_teachers_tokens_normalised_one_by_one() -> None:
    """Trap 36: over the features of a token, without affine."""
    method, views = ijepa(), masked_batch()
    tokens = method.networks.teacher(views.global_views[0]).tokens
    tokens = (tokens - tokens.mean(-1, keepdim=True)) / (tokens.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    seen = method.networks.student(views.global_views[0], keep=views.masks.context).tokens
    predictions = method.predictor(seen, views.masks.context, views.masks.targets)
    terms = [
        F.smooth_l1_loss(predictions[block, image, place], tokens[image, views.masks.targets[block, image, place]])
        for block in range(2) for image in range(5) for place in range(2)
    ]  # fmt: skip
    assert torch.allclose(method.step(views, LATER_STEP).loss, torch.stack(terms).mean(), atol=1e-6)


def test_teacher_takes_no_gradient_and_the_predictor_has_no_twin() -> None:
    """Trap 37."""
    method = ijepa()
    method.step(masked_batch(), LATER_STEP).loss.backward()
    assert all(parameter.grad is None for parameter in method.networks.teacher.parameters())
    assert not [name for name, _ in method.networks.named_parameters() if "mask_token" in name]


def test_predictor_has_the_encoders_number_of_heads() -> None:
    """Trap 39."""
    method = ijepa()
    assert {block.attn.num_heads for block in method.predictor.blocks} == {method.networks.student.num_heads}


def test_fixed_positions_do_not_move_in_ten_steps() -> None:
    """Trap 58."""
    method = ijepa()
    before = method.networks.student.network.pos_embed.clone()
    optimizer = torch.optim.AdamW([p for p in method.parameters() if p.requires_grad], lr=0.1, weight_decay=0.5)
    for seed in range(10):
        optimizer.zero_grad()
        method.step(masked_batch(seed=seed), LATER_STEP).loss.backward()
        optimizer.step()
        method.finish_step(LATER_STEP)
    assert torch.equal(method.networks.student.network.pos_embed, before)
    assert torch.allclose(method.networks.teacher.network.pos_embed, before)


def test_evaluated_network_is_the_teachers_mean_over_patches() -> None:
    """Trap 80."""
    method, images = ijepa().eval(), masked_batch().global_views[0]
    for parameter in method.networks.student.parameters():
        parameter.data.fill_(float("nan"))
    assert torch.allclose(method.embed(images), method.networks.teacher(images).tokens.mean(1))
