from __future__ import annotations

import pytest
import torch
from torch import Tensor

from spt.evaluation.knn import knn_predict


def naive(bank: Tensor, labels: Tensor, queries: Tensor, k: int, temperature: float, num_classes: int) -> Tensor:
    scores = torch.zeros(len(queries), num_classes)
    for b, query in enumerate(queries):
        similarities = [float(torch.dot(query, row) / (query.norm() * row.norm())) for row in bank]
        nearest = sorted(range(len(bank)), key=lambda m: -similarities[m])[:k]
        for m in nearest:
            scores[b, labels[m]] += torch.tensor((similarities[m] - 1) / temperature).exp()
    return scores


def test_scores_equal_the_naive_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    bank, queries = torch.randn(11, 5, generator=generator), 9 * torch.randn(6, 5, generator=generator)
    labels = torch.randint(0, 4, (11,), generator=generator)
    scores = knn_predict(bank, bank_labels=labels, queries=queries, k=3, temperature=0.07, num_classes=4)
    torch.testing.assert_close(scores, naive(bank, labels, queries, 3, 0.07, 4), rtol=1e-4, atol=1e-7)


def test_chunks_do_not_change_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    bank, queries = torch.randn(9, 5, generator=generator), torch.randn(7, 5, generator=generator)
    labels = torch.arange(9) % 3
    whole = knn_predict(bank, bank_labels=labels, queries=queries, k=4, temperature=0.1, num_classes=3)
    monkeypatch.setattr("spt.evaluation.knn._CHUNK_SIMILARITIES", 2 * 9)
    pieces = knn_predict(bank, bank_labels=labels, queries=queries, k=4, temperature=0.1, num_classes=3)
    torch.testing.assert_close(whole, pieces)


def test_a_hand_made_bank_of_two_classes_is_told_apart() -> None:
    """Trap 82."""
    bank = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0], [0.0, 2.0]])
    labels = torch.tensor([0, 0, 1, 1, 1])
    queries = torch.tensor([[5.0, 1.0], [1.0, 5.0]])
    scores = knn_predict(bank, bank_labels=labels, queries=queries, k=2, temperature=0.07, num_classes=2)
    assert scores.argmax(dim=1).tolist() == [0, 1]


def test_a_class_that_the_bank_lacks_scores_zero() -> None:
    """Trap 82: classes are the data set's, not those that happen to be in the bank or the queries."""
    scores = knn_predict(
        torch.randn(4, 3), bank_labels=torch.tensor([0, 0, 3, 3]), queries=torch.randn(5, 3),
        k=4, temperature=0.2, num_classes=6,
    )  # fmt: skip
    assert scores.shape == (5, 6)
    assert not scores[:, [1, 2, 4, 5]].any()


def test_k_beyond_the_bank_lets_all_of_it_vote() -> None:
    """Trap 82."""
    bank, labels, queries = torch.randn(4, 3), torch.tensor([0, 1, 1, 2]), torch.randn(5, 3)
    more = knn_predict(bank, bank_labels=labels, queries=queries, k=200, temperature=0.07, num_classes=3)
    exact = knn_predict(bank, bank_labels=labels, queries=queries, k=4, temperature=0.07, num_classes=3)
    assert torch.equal(more, exact)


def test_a_tiny_temperature_stays_finite() -> None:
    bank = torch.randn(6, 4)
    scores = knn_predict(bank, bank_labels=torch.arange(6), queries=bank, k=3, temperature=1e-4, num_classes=6)
    assert torch.isfinite(scores).all()
    assert scores.argmax(dim=1).tolist() == list(range(6))
