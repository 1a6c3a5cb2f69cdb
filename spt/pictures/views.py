"""A batch as the network sees it."""

from __future__ import annotations

from functools import partial

from matplotlib.figure import Figure

from spt.pictures.painter import BatchPainter, Colors, Drawing
from spt.pictures.sheet import Column, draw_sheet
from spt.types import Batch


class ViewsPainter(BatchPainter):
    """plots/views.png: a row an image, a column a view.

    Args:
        num_images: rows, at most.
    """

    def __init__(self, *, num_images: int) -> None:
        self.num_images = num_images

    def paint(self, batch: Batch, colors: Colors) -> Drawing:
        """The views of the first images of the micro-batch."""
        named = {f"global {i}": view for i, view in enumerate(batch.global_views, 1)}
        named |= {f"local {i}": view for i, view in enumerate(batch.local_views, 1)}
        columns = [
            Column(f"{name}\n{view.shape[-1]} px", colors.pixels(view[: self.num_images]))
            for name, view in named.items()
        ]
        return partial(_draw, columns)


def _draw(columns: list[Column], when: str) -> Figure:
    return draw_sheet(f"views of a training batch, {when}", columns)
