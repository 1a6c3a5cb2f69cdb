"""Pictures that are made while a run lasts."""

from __future__ import annotations

from collections.abc import Mapping

from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from spt.reporting.record import pretraining
from spt.reporting.views import plot_views


class Pictures(Callback):
    """plots/views.png, after the first batch: mistakes in augmentations are seen before they cost anything.

    Args:
        folder: the run folder.
        mean: [3], of the views' normalisation.
        std: [3], of the views' normalisation.
        patch_size: pixels of a token's side; None for backbones without tokens.
        num_images: rows of views.png.
    """

    def __init__(
        self, *, folder: str, mean: list[float], std: list[float], patch_size: int | None, num_images: int
    ) -> None:
        self.folder = folder
        self.mean = mean
        self.std = std
        self.patch_size = patch_size
        self.num_images = num_images
        self._has_views = False

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, object] | None,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Draws the views of the first batch."""
        views = pretraining(pl_module).last_batch
        if self._has_views or views is None or not trainer.is_global_zero:
            return
        self._has_views = True
        plot_views(
            views,
            self.folder,
            mean=self.mean,
            std=self.std,
            patch_size=self.patch_size,
            num_images=self.num_images,
        )
