"""A logger that takes pictures and keeps what it was given."""

from __future__ import annotations

from collections.abc import Mapping

from lightning.pytorch.loggers import Logger
from torch import Tensor

from spt.reporting.picture import Picture


class Shown(Logger):
    """Keeps which pictures it was given, at which steps."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures: list[tuple[str, int]] = []

    @property
    def name(self) -> str:
        return "shown"

    @property
    def version(self) -> str:
        return ""

    def log_hyperparams(self, params: object) -> None:
        """Not kept."""

    def log_metrics(self, metrics: Mapping[str, float | Tensor], step: int | None = None) -> None:
        """Not kept."""

    def log_picture(self, picture: Picture, step: int) -> None:
        assert picture.pixels.shape[2] == 3
        self.pictures.append((picture.name, step))
