"""Online linear accuracy."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from lightning import LightningModule, Trainer
from torch import Tensor

from spt.evaluation.rows import Rows
from spt.probes.linear_classifier import LinearClassifier
from spt.probes.probe import BANK, VAL, Probe, columns, top1
from spt.reporting.record import pretraining

# b images of a micro-batch on this process, M images in all, D embedding, C classes


class LinearProbe(Probe):
    """val/linear_top1: accuracy of a linear classifier that learns from the augmented views beside the pretraining.

    It steps once per optimizer step, on the mean gradient over that step's micro-batches and processes, so its
    weights are bit-identical on every process. At each evaluation a copy of it goes over the bank's embeddings, which
    stand still and are not augmented, before it is scored: so the untrained network, for which nothing was learnt
    online, is measured like the trained one.

    Args:
        lr: learning rate, constant: the embeddings keep moving, so there is no end to anneal towards.
        momentum: of the gradient.
        weight_decay: added to the gradient as weight_decay * weight, biases left out.
        statistics_momentum: share of the old mean and variance, which standardise embeddings, that stays at each step.
        num_classes: of the data set.
        bank_passes: passes of the copy over the bank at each evaluation.
        bank_batch_size: images of the bank in one of its steps, global.
        seed: of the order of the bank in those passes.
    """

    def __init__(
        self,
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        statistics_momentum: float,
        num_classes: int,
        bank_passes: int,
        bank_batch_size: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.statistics_momentum = statistics_momentum
        self.num_classes = num_classes
        self.bank_passes = bank_passes
        self.bank_batch_size = bank_batch_size
        self.seed = seed
        self.classifier = self._new_classifier()
        self._step = 0

    def loaders(self, trainer: Trainer) -> tuple[int, ...]:
        """Images that the copy goes over, and held-out ones."""
        return (BANK, VAL)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Sets the clock that tells micro-batches from steps."""
        self._step = pretraining(pl_module).progress.step

    @torch.no_grad()
    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, object] | None,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Learns from the micro-batch; moves when the pretraining has moved."""
        embeddings, labels = columns(outputs, "embeddings", "labels")  # [b, D], [b]
        self.classifier.add(embeddings, labels)
        step = pretraining(pl_module).progress.step
        if step != self._step:
            self.classifier.step()
            self._step = step

    def measure(self, trainer: Trainer, module: LightningModule, rows: dict[int, Rows]) -> dict[str, float]:
        """{"val/linear_top1"}, in [0, 1]."""
        val = rows[VAL].labelled()
        classifier = self._settled(rows[BANK].labelled())
        return {"val/linear_top1": top1(classifier.logits(val.embeddings), val.labels)}

    def state_dict(self) -> dict[str, Tensor]:
        """The classifier's weights and velocity."""
        return self.classifier.state_dict()

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Goes on from a checkpoint's classifier."""
        self.classifier.load_state_dict(state_dict)

    def _new_classifier(self) -> LinearClassifier:
        return LinearClassifier(
            self.num_classes,
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            statistics_momentum=self.statistics_momentum,
        )

    def _settled(self, bank: Rows) -> LinearClassifier:
        """A copy that went over all of the bank, on every process alike: no gradient needs to be averaged."""
        classifier = self._new_classifier()
        classifier.load_state_dict(self.classifier.state_dict())
        # of its own: torch's global random state belongs to the pretraining
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.bank_passes):
            order = torch.randperm(len(bank.labels), generator=generator).to(bank.labels.device)
            for chosen in order.split(self.bank_batch_size):
                classifier.add(bank.embeddings[chosen], bank.labels[chosen])
                classifier.step_alone()
        return classifier
