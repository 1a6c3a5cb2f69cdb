"""What an evaluation leaves for pictures."""

from __future__ import annotations

from functools import cached_property
from typing import cast

import torch
from lightning import LightningModule, Trainer
from torch import Tensor

from spt.data.module import ImageData
from spt.evaluation.rows import Rows, gather_unique
from spt.module import SSLModule
from spt.pictures.glimpse import Glimpse, glimpse
from spt.probes.probe import VAL

# n images shown, M rows on this process, D embedding, S pixels


class Evaluation:
    """One pass over bank and validation images, and the network that was evaluated.

    Args:
        trainer: whose datamodule holds the images.
        module: in eval mode.
        rows: [M, D] embeddings of this process's part of each loader.
        num_images: n, validation images that are shown, evenly spread: files are sorted by class.
    """

    def __init__(self, trainer: Trainer, module: LightningModule, rows: dict[int, Rows], num_images: int) -> None:
        self.trainer = trainer
        self.module = cast(SSLModule, module)
        self.data = cast(ImageData, trainer.datamodule)  # type: ignore[attr-defined]
        self.rows = rows
        self.shown = self.spread(num_images)

    def spread(self, count: int) -> list[int]:
        """Up to that many positions in the validation set, evenly spread over it, ascending."""
        num_images = len(self.data.splits.val.labels)
        return [index * num_images // min(count, num_images) for index in range(min(count, num_images))]

    def images(self, loader: int, rows: list[int]) -> Tensor:
        """The evaluated views of images of a loader's set, [n, 3, S, S], normalised, on the module's device."""
        sample = self.data.evaluation_sample(loader, rows)
        images, device = sample.images, self.module.device
        here = [part.to(device) for part in images] if isinstance(images, list) else images.to(device)
        return self.module.views.evaluation_view(here)

    def val_rows(self, positions: list[int]) -> Rows:
        """The rows of validation images on whatever process; all processes call it."""
        own = self.rows[VAL]
        keep = torch.isin(own.indices, torch.tensor(positions, device=own.indices.device))
        return gather_unique(Rows(*(column[keep] for column in own)))

    @cached_property
    def view(self) -> Tensor:
        """The images that are shown, [n, 3, S, S], normalised."""
        return self.images(VAL, self.shown)

    @cached_property
    def glimpse(self) -> Glimpse:
        """What the evaluated network makes of them; all processes call it."""
        with self.trainer.precision_plugin.val_step_context():
            return glimpse(self.module.method, self.view.to(self.module.dtype))
