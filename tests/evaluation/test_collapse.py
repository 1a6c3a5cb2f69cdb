from __future__ import annotations

import math

import pytest
import torch

from spt.evaluation.collapse import embedding_std, rankme


def test_isotropic_embeddings_have_std_one() -> None:
    embeddings = torch.randn(4000, 16, generator=torch.Generator().manual_seed(0))
    assert embedding_std(embeddings) == pytest.approx(1.0, abs=0.01)


def test_embeddings_of_one_direction_have_std_zero_and_rank_one() -> None:
    embeddings = torch.rand(9, 1) @ torch.randn(1, 5, generator=torch.Generator().manual_seed(0)) + 0.0
    assert embedding_std(embeddings) == pytest.approx(0.0, abs=1e-6)
    assert rankme(embeddings) == pytest.approx(1.0, abs=1e-3)


def test_std_equals_the_naive_loop() -> None:
    embeddings = torch.randn(6, 4, generator=torch.Generator().manual_seed(2)).tolist()
    rows = [[value / math.hypot(*row) for value in row] for row in embeddings]
    stds = []
    for column in zip(*rows, strict=True):
        mean = sum(column) / 6
        stds.append(math.sqrt(sum((value - mean) ** 2 for value in column) / 6))
    assert embedding_std(torch.tensor(embeddings)) == pytest.approx(math.sqrt(4) * sum(stds) / 4, rel=1e-5)


def test_rank_counts_equal_orthogonal_directions() -> None:
    embeddings = 3.0 * torch.eye(7)[:5]
    assert rankme(embeddings) == pytest.approx(5.0, rel=1e-5)


def test_rank_equals_the_entropy_written_out() -> None:
    singular_values = [4.0, 2.0, 1.0, 1.0]
    entropy = -sum(s / 8 * math.log(s / 8) for s in singular_values)
    assert rankme(torch.diag(torch.tensor(singular_values))) == pytest.approx(math.exp(entropy), rel=1e-5)
