"""BatchNorm of ours in one process: a stand-in for torch's."""

from __future__ import annotations

import pytest
import torch
from timm.layers import BatchNormAct2d
from torch import nn

from spt.config.errors import ConfigError
from spt.distributed.batch_norm import replace_batch_norm


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 2), BatchNormAct2d(5))


@pytest.mark.parametrize("across_ranks", [True, False])
def test_one_process_computes_what_torch_computes(across_ranks: bool) -> None:
    ours, theirs = network(), network()
    ours.load_state_dict(theirs.state_dict())
    weights = list(ours.parameters())
    replace_batch_norm(ours, across_ranks=across_ranks)
    assert all(a is b for a, b in zip(weights, ours.parameters(), strict=True))
    images = torch.randn(3, 3, 6, 5)
    for _ in range(2):
        assert torch.equal(ours(images), theirs(images))
    assert torch.equal(ours.eval()(images), theirs.eval()(images))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())


def test_half_precision_weights_meet_float32_statistics() -> None:
    layer = nn.Sequential(nn.BatchNorm1d(4))
    replace_batch_norm(layer, across_ranks=False)
    layer[0].weight.data = layer[0].weight.data.bfloat16()
    layer[0].bias.data = layer[0].bias.data.bfloat16()
    output = layer(torch.randn(6, 4).bfloat16())
    assert output.dtype == torch.bfloat16
    assert layer[0].running_mean.dtype == torch.float32
    assert output.float().mean(0).abs().max() < 0.02


def test_layers_that_would_change_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"SyncBatchNorm.*batch_norm=local"):
        replace_batch_norm(nn.Sequential(nn.SyncBatchNorm(3)), across_ranks=True)
