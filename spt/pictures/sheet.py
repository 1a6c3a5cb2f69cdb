"""Small images in rows and columns, as one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

# n rows, S pixels of an image

Images = NDArray[np.float32]  # [n, S, S, 3], in [0, 1]
Color = tuple[float, float, float]

_DPI = 110
_CELL, _GAP, _CAPTION, _FRAME = 120, 8, 20, 4  # pixels: side of an image, between two, a line of text, of a frame
_MARGIN, _TITLE, _HEAD_LINE = 10, 28, 15  # pixels: around all, the title, a line of a column's head


class Column(NamedTuple):
    """One column.

    Attributes:
        head: what it shows, in up to two short lines.
        images: one a row; their sizes may differ from column to column.
        captions: a short line below each image; none for none.
        frames: the colour around each image; None leaves an image without.
    """

    head: str
    images: Images
    captions: Sequence[str] = ()
    frames: Sequence[Color | None] = ()


def draw_sheet(title: str, columns: Sequence[Column]) -> Figure:
    """The columns side by side: images are brought to one size, enlarged without smoothing so that pixels show."""
    num_rows = len(columns[0].images)
    caption = _CAPTION if any(column.captions for column in columns) else 0
    head = _TITLE + _HEAD_LINE * max(column.head.count("\n") + 1 for column in columns)
    width = len(columns) * (_CELL + _GAP) - _GAP + 2 * _MARGIN
    height = head + num_rows * (_CELL + _GAP + caption) - _GAP + 2 * _MARGIN
    width = max(width, 8 * len(title))  # a long title over few columns
    canvas = np.full((height, width, 3), 255, dtype=np.uint8)
    figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI)
    figure.text(_MARGIN / width, 1 - (_MARGIN + _TITLE / 2) / height, title, fontsize=9, va="center")
    for number, column in enumerate(columns):
        left = _MARGIN + number * (_CELL + _GAP)
        middle = (left + _CELL / 2) / width
        figure.text(middle, 1 - (_MARGIN + head - 3) / height, column.head, fontsize=7, ha="center", va="bottom")
        for row, image in enumerate(column.images):
            top = _MARGIN + head + row * (_CELL + _GAP + caption)
            _place(canvas, image, left, top, column.frames[row] if column.frames else None)
            if column.captions:
                low = 1 - (top + _CELL + _FRAME + 2) / height
                figure.text(middle, low, column.captions[row], fontsize=7, ha="center", va="top")
    figure.figimage(canvas)
    return figure


def _place(canvas: NDArray[np.uint8], image: Images, left: int, top: int, frame: Color | None) -> None:
    if frame is not None:
        around = canvas[top - _FRAME : top + _CELL + _FRAME, left - _FRAME : left + _CELL + _FRAME]
        around[:] = np.round(np.multiply(frame, 255)).astype(np.uint8)
    canvas[top : top + _CELL, left : left + _CELL] = _resized(image)


def _resized(image: Images) -> NDArray[np.uint8]:
    """[S, S, 3] in [0, 1] -> [_CELL, _CELL, 3]."""
    pixels = Image.fromarray((image * 255).round().clip(0, 255).astype(np.uint8))
    way = Image.Resampling.BOX if image.shape[0] > _CELL else Image.Resampling.NEAREST
    return np.asarray(pixels.resize((_CELL, _CELL), way))
