"""I-JEPA's predictor."""

from __future__ import annotations

import pytest
import torch

from spt.config.errors import ConfigError
from spt.heads.masked_predictor import MaskedPredictor


def predictor() -> MaskedPredictor:
    torch.manual_seed(0)
    return MaskedPredictor(embed_dim=6, num_heads=2, grid=(3, 4), predictor_dim=8, depth=2)


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    context = torch.stack([torch.randperm(12)[:5].sort().values for _ in range(2)])
    targets = torch.stack([torch.stack([torch.randperm(12)[:3] for _ in range(2)]) for _ in range(4)])
    return torch.randn(2, 5, 6), context, targets


def test_each_block_is_predicted_for_each_image() -> None:
    assert predictor()(*inputs()).shape == (4, 2, 3, 6)


def test_blocks_do_not_see_each_other() -> None:
    """Trap 38."""
    network, (tokens, context, targets) = predictor(), inputs()
    other = targets.clone()
    other[1] = (other[1] + 5) % 12
    before, after = network(tokens, context, targets), network(tokens, context, other)
    assert not torch.allclose(before[1], after[1])
    assert torch.allclose(before[[0, 2, 3]], after[[0, 2, 3]], atol=1e-6)


def test_predictions_do_not_depend_on_the_order_of_the_context() -> None:
    network, (tokens, context, targets) = predictor(), inputs()
    order = torch.tensor([3, 0, 4, 1, 2])
    same = network(tokens[:, order], context[:, order], targets)
    assert torch.allclose(network(tokens, context, targets), same, atol=1e-5)


def test_predictions_depend_on_where_the_context_is() -> None:
    network, (tokens, context, targets) = predictor(), inputs()
    moved = (context + 1) % 12
    assert not torch.allclose(network(tokens, context, targets), network(tokens, moved, targets))


def test_positions_are_fixed_and_not_saved() -> None:
    """Trap 58."""
    names = {name for name, _ in predictor().named_parameters()} | set(predictor().state_dict())
    assert not any("positions" in name for name in names)


def test_every_linear_and_the_mask_token_start_truncated_normal() -> None:
    network = MaskedPredictor(embed_dim=64, num_heads=4, grid=(3, 3), predictor_dim=128, depth=2)
    for block in network.blocks:
        # the authors' depth rescale is undone by themselves
        assert abs(block.mlp.fc2.weight.std().item() - 0.02) < 0.002
    assert 0.01 < network.mask_token.std().item() < 0.03


def test_a_width_that_the_encoders_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"predictor_dim=8 .*the 3 heads"):
        MaskedPredictor(embed_dim=6, num_heads=3, grid=(3, 4), predictor_dim=8, depth=1)
