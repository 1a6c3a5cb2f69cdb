"""Online watch for collapse."""

from __future__ import annotations

import logging
import math

from lightning import LightningModule, Trainer

from spt.evaluation.collapse import embedding_std, rankme
from spt.evaluation.rows import Rows
from spt.probes.probe import VAL, Probe
from spt.reporting.record import pretraining

logger = logging.getLogger(__name__)

_REAL_FALL = 0.5  # share of the untrained network's value; small networks start low and wander

_WHERE_TO_LOOK = (
    "Look at the curves of collapse/*, train/loss and val/knn_top1 in plots/ or metrics.csv: a loss that went flat "
    "while accuracy fell is collapse. Usual causes: a learning rate or teacher temperature too high, a teacher "
    "momentum too low, a center or predictor left out, too few negatives."
)


class CollapseProbe(Probe):
    """collapse/embedding_std and collapse/rankme of held-out images, with one warning each when they become too small.

    A warning needs both: a value below its threshold, and below half of the untrained network's, which may start low
    without any collapse.

    Args:
        min_embedding_std: below it, directions of embeddings hardly differ; from 0 (one direction) to 1 (all alike).
        min_rankme: dimensions; below it, embeddings vary along next to none.
        num_images: images that RankMe is taken over at most, the first of the validation set.
    """

    def __init__(self, *, min_embedding_std: float, min_rankme: float, num_images: int) -> None:
        super().__init__()
        self.thresholds = {"collapse/embedding_std": min_embedding_std, "collapse/rankme": min_rankme}
        self.num_images = num_images
        self._warned: set[str] = set()

    def loaders(self, trainer: Trainer) -> tuple[int, ...]:
        """The held-out images."""
        return (VAL,)

    def measure(self, trainer: Trainer, module: LightningModule, rows: dict[int, Rows]) -> dict[str, float]:
        """{"collapse/embedding_std", "collapse/rankme"}."""
        embeddings = rows[VAL].embeddings
        metrics = {
            "collapse/embedding_std": embedding_std(embeddings),
            "collapse/rankme": rankme(embeddings[: self.num_images]),
        }
        if not trainer.sanity_checking and trainer.is_global_zero:
            self._warn(metrics, pretraining(module).metrics_at_start)
        return metrics

    def _warn(self, metrics: dict[str, float], at_start: dict[str, float]) -> None:
        for name, value in metrics.items():
            before = at_start.get(name, math.inf)
            if value < min(self.thresholds[name], _REAL_FALL * before) and name not in self._warned:
                self._warned.add(name)
                logger.warning(
                    "%s fell to %.3g (untrained network: %.3g, threshold: %.3g): embeddings of different images are "
                    "becoming alike. %s",
                    *(name, value, before, self.thresholds[name], _WHERE_TO_LOOK),
                )
