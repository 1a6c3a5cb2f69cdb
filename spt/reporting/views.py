"""plots/views.png: a batch as the network sees it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from spt.reporting.plots import save
from spt.types import Batch, Masks

# n images shown, V global views, L local views, M target blocks, N tokens, S view size, G patches a side

_CELL_INCHES = 1.25
_SHOWN_TARGETS = 4
_HIDDEN, _GREY = 0.2, 0.5  # share of the image left under a mask, and what covers it: black would not show on black


def plot_views(
    batch: Batch,
    folder: str | Path,
    *,
    mean: list[float],
    std: list[float],
    patch_size: int | None,
    num_images: int,
) -> Path:
    """Draws the first images of a batch into <folder>/plots/views.png: a row each, a column a view, then one a mask.

    Masks are drawn on the first global view: what they leave out is covered in grey.

    Args:
        mean: [3], subtracted from the views' channels when they were normalised.
        std: [3], divided by.
        patch_size: pixels of a token's side; None for networks without tokens.
        num_images: rows, at most.
    """
    columns = _view_columns(batch, num_images, mean, std)
    if batch.masks is not None and patch_size is not None:
        columns |= _mask_columns(columns["global 1"], batch.masks, patch_size)
    num_rows = len(columns["global 1"])
    figure = Figure(figsize=(len(columns) * _CELL_INCHES, num_rows * _CELL_INCHES + 0.3), dpi=110, layout="constrained")
    for column, (title, images) in enumerate(columns.items()):
        for row, image in enumerate(images):
            axes = figure.add_subplot(num_rows, len(columns), row * len(columns) + column + 1)
            axes.imshow(image, interpolation="nearest")
            axes.set_axis_off()
            if row == 0:
                axes.set_title(f"{title}\n{image.shape[0]} px", fontsize=8)
    return save(figure, Path(folder) / "plots" / "views.png")


def visible(tokens: Tensor, size: int, patch_size: int) -> NDArray[np.bool_]:
    """[n, N_kept] token positions in raster order -> [n, S, S]: the pixels that they cover."""
    side = size // patch_size
    grid = torch.zeros(len(tokens), side * side, dtype=torch.bool).scatter_(1, tokens.cpu(), True)  # [n, G * G]
    pixels = grid.view(-1, side, side).repeat_interleave(patch_size, 1).repeat_interleave(patch_size, 2)  # [n, S, S]
    return pixels.numpy()


def _view_columns(batch: Batch, num_images: int, mean: list[float], std: list[float]) -> dict[str, NDArray[np.float32]]:
    """Column title -> [n, S, S, 3] in [0, 1]."""
    named = {f"global {i}": view for i, view in enumerate(batch.global_views, 1)}
    named |= {f"local {i}": view for i, view in enumerate(batch.local_views, 1)}
    scale, offset = torch.tensor(std).view(3, 1, 1), torch.tensor(mean).view(3, 1, 1)
    images = {title: view[:num_images].detach().float().cpu() * scale + offset for title, view in named.items()}
    return {title: image.clamp(0, 1).permute(0, 2, 3, 1).numpy() for title, image in images.items()}


def _mask_columns(images: NDArray[np.float32], masks: Masks, patch_size: int) -> dict[str, NDArray[np.float32]]:
    """The first global view under each mask: title -> [n, S, S, 3]."""
    named = {"context": masks.context}
    named |= {f"target {i}": block for i, block in enumerate(masks.targets[:_SHOWN_TARGETS], 1)}
    shown = {title: visible(tokens[: len(images)], images.shape[1], patch_size) for title, tokens in named.items()}
    covered = images * _HIDDEN + _GREY * (1 - _HIDDEN)
    return {title: np.where(pixels[..., None], images, covered) for title, pixels in shown.items()}
