"""Heads as the authors build them."""

from __future__ import annotations

import copy

import torch
from torch import nn

from spt.heads.projection import BYOLHead, DINOHead, SimCLRHead


def tree(head: nn.Module) -> list[str]:
    """Every layer with its parameters' shapes; those without gradient in brackets."""
    rows = []
    for name, module in head.named_modules():
        own = {
            key: tuple(value.shape) if value.requires_grad else [tuple(value.shape)]
            for key, value in module.named_parameters(recurse=False)
        }
        if not list(module.children()) or own:
            rows.append(f"{name} {type(module).__name__} {own}")
    return rows


def test_simclr_head_has_no_bias_and_no_shift_at_the_end() -> None:
    """Trap 32."""
    assert tree(SimCLRHead(5, hidden_dim=7, output_dim=3, num_layers=3)) == [
        "0 Linear {'weight': (7, 5)}",
        "1 BatchNorm1d {'weight': (7,), 'bias': (7,)}",
        "2 ReLU {}",
        "3 Linear {'weight': (7, 7)}",
        "4 BatchNorm1d {'weight': (7,), 'bias': (7,)}",
        "5 ReLU {}",
        "6 Linear {'weight': (3, 7)}",
        "7 BatchNorm1d {'weight': (3,), 'bias': [(3,)]}",
    ]


def test_byol_head_has_no_bias_and_no_batch_norm_at_the_end() -> None:
    """Trap 32."""
    assert tree(BYOLHead(5, hidden_dim=7, output_dim=3)) == [
        "0 Linear {'weight': (7, 5), 'bias': (7,)}",
        "1 BatchNorm1d {'weight': (7,), 'bias': (7,)}",
        "2 ReLU {}",
        "3 Linear {'weight': (3, 7)}",
    ]


def dino_head(**changes: object) -> DINOHead:
    sizes = {
        "hidden_dim": 16,
        "bottleneck_dim": 8,
        "num_prototypes": 12,
        "num_layers": 3,
        "batch_norm": False,
        "freeze_norm": True,
    }
    return DINOHead(5, **{**sizes, **changes})


def test_dino_head_is_the_authors_tree() -> None:
    """Trap 32."""
    assert tree(dino_head()) == [
        "mlp.0 Linear {'weight': (16, 5), 'bias': (16,)}",
        "mlp.1 GELU {}",
        "mlp.2 Linear {'weight': (16, 16), 'bias': (16,)}",
        "mlp.3 GELU {}",
        "mlp.4 Linear {'weight': (8, 16), 'bias': (8,)}",
        "last_layer.parametrizations.weight ParametrizationList {'original0': [(12, 1)], 'original1': (12, 8)}",
        "last_layer.parametrizations.weight.0 _WeightNorm {}",
    ]


def test_dino_logits_are_cosines_while_the_norms_are_frozen() -> None:
    """Trap 27: the norm is taken per prototype."""
    head = dino_head()
    with torch.no_grad():
        head.last_layer.parametrizations.weight.original1.mul_(torch.arange(1.0, 13.0)[:, None])
    assert torch.allclose(head.last_layer.weight.norm(dim=1), torch.ones(12))
    assert head(100 * torch.randn(9, 5)).abs().max() <= 1.0 + 1e-6


def test_dino_mlp_is_truncated_normal_and_its_prototypes_keep_the_default_initialisation() -> None:
    """Trap 26."""
    head = dino_head(hidden_dim=512, bottleneck_dim=256, num_prototypes=1024)
    assert abs(head.mlp[2].weight.std().item() - 0.02) < 0.001
    assert head.mlp[2].bias.abs().max() == 0.0
    directions = head.last_layer.parametrizations.weight.original1
    assert abs(directions.std().item() - (3 * 256) ** -0.5) < 0.001  # kaiming-uniform with a = sqrt 5


def test_dino_norms_train_when_they_are_not_frozen() -> None:
    head = dino_head(freeze_norm=False)
    head(torch.randn(3, 5)).square().sum().backward()
    assert head.last_layer.parametrizations.weight.original0.grad.abs().sum() > 0


def test_a_copied_dino_head_gives_the_same_logits() -> None:
    """Trap 18: the old weight norm could not be copied."""
    head, rows = dino_head(), torch.randn(4, 5)
    assert torch.equal(copy.deepcopy(head)(rows), head(rows))


def test_an_embedding_of_zeros_gives_finite_logits_and_gradients_in_half_precision() -> None:
    """Trap 28."""
    head = dino_head().bfloat16()
    rows = torch.zeros(2, 5, dtype=torch.bfloat16, requires_grad=True)
    head(rows).float().sum().backward()
    assert torch.isfinite(rows.grad).all()
