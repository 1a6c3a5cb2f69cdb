"""Online k-NN accuracy."""

from __future__ import annotations

from lightning import LightningModule, Trainer

from spt.evaluation.knn import knn_predict
from spt.evaluation.rows import Rows
from spt.probes.probe import BANK, VAL, Probe, top1


class KNNProbe(Probe):
    """val/knn_top1: accuracy of weighted k-NN on held-out images, with unaugmented training images as bank.

    Args:
        k: neighbours that vote.
        temperature: of the votes, see spt.evaluation.knn.
        num_classes: of the data set.
    """

    def __init__(self, *, k: int, temperature: float, num_classes: int) -> None:
        super().__init__()
        self.k = k
        self.temperature = temperature
        self.num_classes = num_classes

    def loaders(self, trainer: Trainer) -> tuple[int, ...]:
        """Both, always."""
        return BANK, VAL

    def measure(self, trainer: Trainer, module: LightningModule, rows: dict[int, Rows]) -> dict[str, float]:
        """{"val/knn_top1"}, in [0, 1]."""
        bank, val = rows[BANK].labelled(), rows[VAL].labelled()
        scores = knn_predict(
            bank.embeddings,
            bank_labels=bank.labels,
            queries=val.embeddings,
            k=self.k,
            temperature=self.temperature,
            num_classes=self.num_classes,
        )  # [M, C]
        return {"val/knn_top1": top1(scores, val.labels)}
