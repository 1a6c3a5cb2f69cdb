"""What all probes share: they collect embeddings over a validation pass, then measure once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import cast

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from spt.evaluation.rows import Rows, concatenate, gather_unique
from spt.reporting.record import record

# b images on this process, M images in all, D embedding

BANK, VAL = 0, 1  # the validation loaders: training images without augmentation, and held-out images


class Probe(Callback, ABC):
    """Measures the embeddings of a whole validation pass, each image once whatever the number of processes.

    A probe reads detached embeddings and labels. It must leave the networks, their gradients and torch's random state
    alone: pretrained weights are bit-identical with and without it.
    """

    def __init__(self) -> None:
        self._parts: dict[int, list[Rows]] = {BANK: [], VAL: []}

    @abstractmethod
    def loaders(self, trainer: Trainer) -> tuple[int, ...]:
        """The validation loaders whose embeddings this pass needs."""

    @abstractmethod
    def measure(self, trainer: Trainer, module: LightningModule, rows: dict[int, Rows]) -> dict[str, float]:
        """Metrics keyed "stage/name", from the rows of each loader asked for: the same on every process."""

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forgets a pass that was broken off."""
        self._parts = {BANK: [], VAL: []}

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, object] | None,
        batch: object,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keeps the batch's embeddings, on their device."""
        if dataloader_idx in self._wanted(trainer):
            self._parts[dataloader_idx].append(Rows(*columns(outputs, "embeddings", "labels", "indices")))

    @torch.no_grad()
    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Gathers, measures, writes down."""
        wanted = self._wanted(trainer)
        if not wanted:
            return
        rows = {loader: gather_unique(concatenate(self._parts[loader])) for loader in wanted}
        self._parts = {BANK: [], VAL: []}  # frees the embeddings of one probe before the next gathers its own
        record(trainer, pl_module, self.measure(trainer, pl_module, rows))

    def _wanted(self, trainer: Trainer) -> tuple[int, ...]:
        """The loaders to collect: none when Lightning repeats its sanity check on a network that was resumed."""
        return () if trainer.sanity_checking and trainer.global_step > 0 else self.loaders(trainer)


def columns(outputs: Tensor | Mapping[str, object] | None, *names: str) -> list[Tensor]:
    """The named tensors of a step's outputs, detached."""
    mapping = cast(Mapping[str, Tensor], outputs)
    return [mapping[name].detach() for name in names]


def top1(scores: Tensor, labels: Tensor) -> float:
    """Share of rows whose largest score is their label's.

    Args:
        scores: [M, C].
        labels: [M], in [0, C).
    """
    return float((scores.argmax(dim=1) == labels).double().mean())
