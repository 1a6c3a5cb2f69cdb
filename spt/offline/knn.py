"""k-NN accuracy for several numbers of neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from spt.config.errors import ConfigError
from spt.evaluation.knn import knn_predict
from spt.evaluation.rows import Rows

# M images in the bank, B queries


def knn_accuracies(
    bank: Rows, queries: Rows, *, ks: Sequence[int], temperature: float, num_classes: int
) -> dict[int, float]:
    """Top-1 accuracy by number of neighbours, in [0, 1].

    Args:
        bank: labelled training images, without augmentation.
        queries: held-out images; those without a label count nothing.
        ks: numbers of neighbours that vote; a bank of fewer images votes as a whole.
        temperature: of the votes, see spt.evaluation.knn.
        num_classes: of the data set.

    Raises:
        ConfigError: no number of neighbours, or one below 1.
    """
    if not ks or min(ks) < 1:
        raise ConfigError(f"k={list(ks)}: at least one neighbour has to vote; use 'k=[20]'.")
    bank, queries = bank.labelled(), queries.labelled()
    accuracies = {}
    for k in ks:
        scores = knn_predict(
            bank.embeddings,
            bank_labels=bank.labels,
            queries=queries.embeddings,
            k=k,
            temperature=temperature,
            num_classes=num_classes,
        )  # [B, C]
        accuracies[k] = float((scores.argmax(dim=1) == queries.labels).double().mean())
    return accuracies
