"""Pictures of an untrained network, to be drawn on every rank of a group."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor

from spt.callbacks.pictures import Pictures
from spt.pictures.attention import AttentionPainter
from spt.pictures.embedding_map import EmbeddingMapPainter
from spt.pictures.neighbours import NeighboursPainter
from spt.pictures.painter import BatchPainter, EvaluationPainter
from spt.pictures.tokens import TokensPainter
from spt.pictures.views import ViewsPainter
from spt.reporting.picture import Picture
from spt.reporting.quiet import quiet
from tests.pictures.shown import Shown
from tests.strategies.cases import Case, build_data, build_module, build_trainer


class Pixels(Shown):
    """Keeps the first of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.pixels: dict[str, Tensor] = {}

    def log_picture(self, picture: Picture, step: int) -> None:
        self.pixels.setdefault(picture.name, torch.from_numpy(picture.pixels.copy()))


def draw_all(folder: Path, strategies: list[str]) -> dict[str, dict[str, Tensor]]:
    """What this rank drew under each strategy."""
    warnings.simplefilter("error")
    quiet()
    return {strategy: _drawn(folder / strategy, strategy) for strategy in strategies}


def _drawn(folder: Path, strategy: str) -> dict[str, Tensor]:
    torch.manual_seed(3)
    case, pixels = Case("dino", strategy), Pixels()
    painters: dict[str, BatchPainter | EvaluationPainter | None] = {
        "views": ViewsPainter(num_images=2),
        "attention": AttentionPainter(num_heads=2),
        "tokens": TokensPainter(),
        "neighbours": NeighboursPainter(num_neighbours=3),
        "embedding_map": EmbeddingMapPainter(num_images=30),
    }
    pictures = Pictures(
        folder=str(folder), mean=[0.0] * 3, std=[1.0] * 3, every_n_epochs=None, num_images=4, painters=painters
    )
    settings = {"limit_val_batches": 1.0, "num_sanity_val_steps": -1, "logger": [pixels]}
    trainer = build_trainer(case, folder, [pictures], **settings)
    trainer.fit(build_module(case), datamodule=build_data())
    return pixels.pixels
