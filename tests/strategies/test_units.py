"""Into which units networks are divided; nothing is sharded here."""

from __future__ import annotations

import pytest
import timm
import torch
from torch import nn

from spt.heads.masked_predictor import MaskedPredictor
from spt.strategies.units import plan_units
from spt.teacher_student import Branch
from tests.methods.batches import TinyConvNet, tiny_vit
from tests.strategies.cases import build_method


def share(network: nn.Module) -> float:
    """Of all parameters, those in blocks."""
    inside = sum(parameter.numel() for unit in plan_units(network) for parameter in unit.module.parameters())
    return inside / sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "num_blocks", "least_share"),
    [
        ("vit_tiny_patch16_224", 12, 0.9), ("resnet18", 8, 0.9), ("resnet50", 16, 0.9), ("convnext_atto", 12, 0.8),
        ("swin_tiny_patch4_window7_224", 12, 0.9), ("mixer_s32_224", 8, 0.8), ("efficientnet_b0", 16, 0.8),
    ],
)  # fmt: skip
def test_blocks_of_timm_models_are_units(name: str, num_blocks: int, least_share: float) -> None:
    with torch.device("meta"):
        network = timm.create_model(name, num_classes=0)
    assert len(plan_units(network)) == num_blocks
    assert share(network) > least_share


def test_a_head_is_never_divided_and_its_branch_keeps_it() -> None:
    student = build_method("simclr").networks.student
    assert [unit.name for unit in plan_units(student)] == ["backbone.network.blocks.0", "backbone.network.blocks.1"]
    stacked = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)])
    assert all(unit.name.startswith("backbone") for unit in plan_units(Branch(tiny_vit(), stacked)))


def test_predictors_of_blocks_are_divided() -> None:
    predictor = MaskedPredictor(embed_dim=16, num_heads=2, grid=(3, 3), predictor_dim=12, depth=3)
    assert [unit.name for unit in plan_units(predictor)] == ["blocks.0", "blocks.1", "blocks.2"]


def test_lists_of_plain_layers_are_not_units() -> None:
    assert plan_units(TinyConvNet()) == []
    assert plan_units(nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 5)])) == []


def test_custom_stacks_are_found_at_any_depth() -> None:
    stages = nn.ModuleList([nn.ModuleList([Block() for _ in range(size)]) for size in (1, 3)])
    assert [unit.name for unit in plan_units(nn.Sequential(stages))] == ["0.0.0", "0.1.0", "0.1.1", "0.1.2"]


class Block(nn.Module):
    """A custom block."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
