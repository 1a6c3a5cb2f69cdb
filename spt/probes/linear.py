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
    weights are bit-identical on every process. Before the first step, a classifier of its own is fitted to the
    untrained network's embeddings of the bank: the value at the start says what a random network is good for, which is
    more than chance.

    Args:
        lr: learning rate, constant: the embeddings keep moving, so there is no end to anneal towards.
        momentum: of the gradient.
        weight_decay: added to the gradient as weight_decay * weight, biases left out.
        num_classes: of the data set.
        start_passes: passes over the bank for the untrained network's classifier.
        start_batch_size: its images per step, global.
        seed: of the order of the bank in those passes.
    """

    def __init__(
        self,
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
        num_classes: int,
        start_passes: int,
        start_batch_size: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.num_classes = num_classes
        self.start_passes = start_passes
        self.start_batch_size = start_batch_size
        self.seed = seed
        self.classifier = self._new_classifier()
        self._step = 0

    def loaders(self, trainer: Trainer) -> tuple[int, ...]:
        """Held-out images; before the first step also those that the untrained network's classifier is fitted to."""
        return (BANK, VAL) if trainer.sanity_checking else (VAL,)

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
        classifier = self._fit(rows[BANK].labelled()) if trainer.sanity_checking else self.classifier
        return {"val/linear_top1": top1(classifier.logits(val.embeddings), val.labels)}

    def state_dict(self) -> dict[str, Tensor]:
        """The classifier's weights and velocity."""
        return self.classifier.state_dict()

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Goes on from a checkpoint's classifier."""
        self.classifier.load_state_dict(state_dict)

    def _new_classifier(self) -> LinearClassifier:
        return LinearClassifier(self.num_classes, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)

    def _fit(self, bank: Rows) -> LinearClassifier:
        """A classifier fitted to all of the bank, on every process alike: no gradient needs to be averaged."""
        classifier = self._new_classifier()
        # of its own: torch's global random state belongs to the pretraining
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.start_passes):
            order = torch.randperm(len(bank.labels), generator=generator).to(bank.labels.device)
            for chosen in order.split(self.start_batch_size):
                classifier.add(bank.embeddings[chosen], bank.labels[chosen])
                classifier.step_alone()
        return classifier
