"""Pictures that are made while a run lasts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from spt.evaluation.rows import Rows, concatenate
from spt.pictures.evaluation import Evaluation
from spt.pictures.painter import BatchPainter, Colors, Drawing, EvaluationPainter
from spt.probes.probe import BANK, VAL, columns
from spt.reporting.picture import TakesPictures, save
from spt.reporting.record import pretraining


class Pictures(Callback):
    """plots/<name>.png for each painter, the latest under that name, and the same to every logger that takes pictures.

    Training batches are drawn after the first batch, where mistakes in augmentations are seen before they cost
    anything, and evaluations from the untrained network on; both again every few epochs, and evaluations at the end.
    Without probes nothing is evaluated, and batches alone are drawn.

    Args:
        folder: the run folder.
        mean: [3], of the views' normalisation.
        std: [3], of the views' normalisation.
        every_n_epochs: passes over the data between pictures; None for those at the start and at the end alone.
        num_images: validation images that are shown.
        painters: by name; a painter of None is left out.
    """

    def __init__(
        self,
        *,
        folder: str,
        mean: list[float],
        std: list[float],
        every_n_epochs: int | None,
        num_images: int,
        painters: Mapping[str, BatchPainter | EvaluationPainter | None],
    ) -> None:
        self.folder = Path(folder)
        self.colors = Colors(mean, std)
        self.every_n_epochs = every_n_epochs
        self.num_images = num_images
        self.batch_painters = {name: p for name, p in painters.items() if isinstance(p, BatchPainter)}
        self.evaluation_painters = {name: p for name, p in painters.items() if isinstance(p, EvaluationPainter)}
        self._has_drawn_a_batch = False
        self._step = 0
        self._parts: dict[int, list[Rows]] = {}

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int) -> None:
        """Remembers the step that the batch belongs to: loggers file its loss under that."""
        self._step = trainer.global_step

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, object] | None,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Draws the first batch of this process."""
        if not self._has_drawn_a_batch:
            self._has_drawn_a_batch = True
            self._draw_batch(trainer, pl_module, self._step)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draws the last batch of an epoch; here the clock that measures speed stands still."""
        if self._is_nth_epoch(trainer):
            self._draw_batch(trainer, pl_module, trainer.global_step)

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Decides whether this evaluation is drawn; forgets one that was broken off."""
        is_due = bool(self.evaluation_painters) and self._is_due(trainer, pl_module)
        self._parts = {BANK: [], VAL: []} if is_due else {}

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, object] | None,
        batch: object,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keeps the batch's embeddings, the tensors that the probes keep too."""
        if self._parts:
            self._parts[dataloader_idx].append(Rows(*columns(outputs, "embeddings", "labels", "indices")))

    @torch.no_grad()
    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Has all painters look, on all processes, and draws what they saw."""
        if not self._parts:
            return
        rows = {loader: concatenate(parts) for loader, parts in self._parts.items()}
        self._parts = {}
        evaluation = Evaluation(trainer, pl_module, rows, self.num_images)
        drawings = {name: p.paint(evaluation, self.colors) for name, p in self.evaluation_painters.items()}
        self._draw(trainer, drawings, trainer.global_step)

    def _is_due(self, trainer: Trainer, module: LightningModule) -> bool:
        if trainer.sanity_checking:
            return trainer.global_step == 0  # else Lightning repeats its check on a network that was resumed
        progress = pretraining(module).progress
        is_last = trainer.state.fn != TrainerFn.FITTING or progress.step >= progress.total_steps
        return is_last or self._is_nth_epoch(trainer)

    def _is_nth_epoch(self, trainer: Trainer) -> bool:
        return self.every_n_epochs is not None and (trainer.current_epoch + 1) % self.every_n_epochs == 0

    def _draw_batch(self, trainer: Trainer, module: LightningModule, step: int) -> None:
        batch = pretraining(module).last_batch
        if batch is not None and trainer.is_global_zero:
            drawings = {name: p.paint(batch, self.colors) for name, p in self.batch_painters.items()}
            self._draw(trainer, drawings, step)

    def _draw(self, trainer: Trainer, drawings: Mapping[str, Drawing | None], step: int) -> None:
        if not trainer.is_global_zero:
            return
        for name, drawing in drawings.items():
            if drawing is None:
                continue
            picture = save(drawing(f"step {step}"), self.folder / "plots" / f"{name}.png")
            for logger in trainer.loggers:
                if isinstance(logger, TakesPictures):
                    logger.log_picture(picture, step)
