"""Optimizer state on a device that is not the host's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from spt.checkpoint.portable import _read_optimizer
from spt.checkpoint.state import load_optimizer, optimizer_state

META = torch.device("meta")  # stands for a device whose memory is not the host's


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_counters_of_steps_are_where_the_optimizer_wants_them(is_folder: bool, fused: bool) -> None:
    """Fused optimizers want them beside the weights, others on the host, whatever the checkpoint's layout."""
    network = nn.Linear(3, 2)
    before = torch.optim.AdamW(network.parameters())
    network(torch.ones(1, 3)).sum().backward()
    before.step()
    saved = optimizer_state(network, before)
    moved = nn.Linear(3, 2, device=META)
    after = torch.optim.AdamW(moved.parameters())
    after.defaults["fused"] = fused
    if is_folder:
        counters = {name: {"step": entry["step"]} for name, entry in saved["state"].items()}
        stored = SimpleNamespace(tensors={}, read_into=lambda targets: None)
        _read_optimizer(stored, 0, moved, after, {**saved, "state": counters})
    else:
        load_optimizer(moved, after, saved)
    assert len(after.state) == 2
    assert {entry["step"].device for entry in after.state.values()} == {META if fused else torch.device("cpu")}
