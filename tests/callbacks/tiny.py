"""The smallest module that looks to probes and callbacks like the one being pretrained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from torch import Tensor
from torch.optim import SGD, Optimizer
from torch.utils.data import DataLoader

from spt.types import Batch, Progress, Sample

# B images per device, D embedding, C classes

NUM_CLASSES, EMBED_DIM, SIZE = 3, 7, 4


def samples(num_batches: int, batch_size: int, seed: int) -> list[Sample]:
    """Batches of images whose class shows in their brightness."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for first in range(0, num_batches * batch_size, batch_size):
        labels = torch.randint(0, NUM_CLASSES, (batch_size,), generator=generator)
        noise = torch.randn(batch_size, 3, SIZE, SIZE, generator=generator)
        images = 0.5 * noise + 2.0 * torch.nn.functional.one_hot(labels, 3)[:, :, None, None]
        indices = torch.arange(first, first + batch_size)
        batches.append(Sample(images, labels, indices, torch.zeros(batch_size, dtype=torch.int64)))
    return batches


class TinyModule(LightningModule):
    """A linear encoder that is trained to keep its embeddings small."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.encoder = torch.nn.Linear(3 * SIZE * SIZE, EMBED_DIM)
        with torch.no_grad():
            self.encoder.weight.normal_(0, 0.1, generator=generator)
            self.encoder.bias.zero_()
        self.last_batch: Batch | None = None
        self.metrics_at_start: dict[str, float] = {}
        self.step_metrics: dict[str, Tensor | float] = {}

    @property
    def progress(self) -> Progress:
        steps_per_epoch = int(self.trainer.num_training_batches) // self.trainer.accumulate_grad_batches
        return Progress(self.trainer.global_step, int(self.trainer.estimated_stepping_batches), steps_per_epoch)

    def note(self, metrics: Mapping[str, Tensor | float]) -> None:
        self.step_metrics.update(metrics)
        self.log_dict(dict(metrics))

    def embed(self, images: Tensor) -> Tensor:
        return self.encoder(images.flatten(1))  # [B, D]

    def training_step(self, batch: Sample, batch_idx: int) -> dict[str, Tensor]:
        assert isinstance(batch.images, Tensor)
        self.last_batch = Batch([batch.images], [])
        embeddings = self.embed(batch.images)
        loss = embeddings.square().mean()
        self.note({"train/loss": loss.detach()})
        return {"loss": loss, "embeddings": embeddings.detach(), "labels": batch.labels}

    def validation_step(self, batch: Sample, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        assert isinstance(batch.images, Tensor)
        return {"embeddings": self.embed(batch.images), "labels": batch.labels, "indices": batch.indices}

    def configure_optimizers(self) -> Optimizer:
        return SGD(self.parameters(), lr=0.001)


def fit(
    module: LightningModule,
    folder: Path,
    callbacks: list[Callback],
    *,
    loggers: list[Logger] | None = None,
    max_epochs: int = 2,
    num_batches: int = 4,
    accumulate_grad_batches: int = 1,
    checkpoint: str | None = None,
    shows_progress: bool = False,
) -> Trainer:
    """Trains the module on the CPU as a run does: everything is evaluated before the first step."""
    trainer = Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        max_epochs=max_epochs,
        accumulate_grad_batches=accumulate_grad_batches,
        num_sanity_val_steps=-1,
        log_every_n_steps=1,
        logger=loggers or False,
        callbacks=callbacks,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=shows_progress,
    )
    train, bank, val = samples(num_batches, 6, 1), samples(3, 5, 2), samples(2, 8, 4)
    trainer.fit(module, loader(train), [loader(bank), loader(val)], ckpt_path=checkpoint)
    return trainer


def loader(batches: list[Sample]) -> DataLoader[Sample]:
    """The batches as they are."""
    return DataLoader(batches, batch_size=None)  # type: ignore[arg-type]
