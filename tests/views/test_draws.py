from __future__ import annotations

import torch
from scipy.stats import kstest

from spt.views.draws import hashes, uniform

N, COUNT = 5000, 3
INDICES = torch.arange(N)
EPOCHS = torch.zeros_like(INDICES)
MASK = (1 << 64) - 1


def splitmix_output(bits: int) -> int:
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def hash_by_hand(seed: int, stream: int, epoch: int, index: int, draw: int) -> int:
    golden = 0x9E3779B97F4A7C15
    bits = splitmix_output((seed * golden + stream) & MASK)
    bits = splitmix_output((splitmix_output((bits + epoch) & MASK) + index) & MASK)
    return splitmix_output((bits + (draw + 1) * golden) & MASK)


def test_bits_equal_unsigned_64_bit_arithmetic() -> None:
    epochs, indices = torch.tensor([0, 7, 2]), torch.tensor([5, -1, 1_281_166])
    bits = hashes(12345678901234567890, -3, epochs, indices, 4)
    for row, (epoch, index) in enumerate(zip(epochs.tolist(), indices.tolist(), strict=True)):
        for draw in range(4):
            assert bits[row, draw].item() & MASK == hash_by_hand(12345678901234567890, -3, epoch, index, draw)


def test_draws_are_uniform() -> None:
    draws = uniform(0, 0, EPOCHS, INDICES, COUNT)
    assert draws.shape == (N, COUNT)
    assert draws.dtype == torch.float32
    assert 0 <= draws.min() < draws.max() < 1
    for column in draws.T:
        assert kstest(column.numpy(), "uniform").pvalue > 1e-3


def test_draws_of_other_seeds_streams_epochs_and_indices_are_unrelated() -> None:
    first = uniform(0, 0, EPOCHS, INDICES, COUNT)
    others = [
        uniform(1, 0, EPOCHS, INDICES, COUNT),
        uniform(0, 1, EPOCHS, INDICES, COUNT),
        uniform(0, -1, EPOCHS, INDICES, COUNT),
        uniform(0, 0, EPOCHS + 1, INDICES, COUNT),
        uniform(0, 0, EPOCHS, INDICES + N, COUNT),
        first.roll(1, dims=0),
        first.roll(1, dims=1),
    ]
    for other in others:
        correlation = torch.corrcoef(torch.stack((first.flatten(), other.flatten())))[0, 1]
        assert abs(correlation) < 4 / (N * COUNT) ** 0.5


def test_draws_depend_neither_on_batch_nor_on_how_many_are_asked_for() -> None:
    whole = uniform(5, 2, EPOCHS, INDICES, COUNT)
    assert torch.equal(uniform(5, 2, EPOCHS[70:73], INDICES[70:73], COUNT + 4)[:, :COUNT], whole[70:73])
