"""A drawing as pixels, and what takes it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray


class Picture(NamedTuple):
    """What a drawing looks like.

    Attributes:
        name: what it shows, a word that names its file.
        pixels: [H, W, 3], uint8.
    """

    name: str
    pixels: NDArray[np.uint8]


@runtime_checkable
class TakesPictures(Protocol):
    """A logger that shows pictures."""

    def log_picture(self, picture: Picture, step: int) -> None:
        """Shows one at an optimizer step; called by rank 0."""


def save(figure: Figure, path: Path) -> Picture:
    """Writes a figure as PNG without touching matplotlib's global state: no screen is needed, and no random draw made.

    Returns:
        The same as pixels, named after the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas = FigureCanvasAgg(figure)
    canvas.print_png(str(path))
    return Picture(path.stem, np.asarray(canvas.buffer_rgba())[..., :3].copy())
