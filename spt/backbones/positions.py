"""Position embeddings: fixed sine-cosine, and learned ones resampled to another grid."""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

from spt.config.errors import ConfigError

# N = rows x columns of patches, D embedding


def sincos_positions(dim: int, rows: int, columns: int) -> Tensor:
    """Two-dimensional sine-cosine position embeddings, [rows x columns, dim], float32, in raster order.

    The first half of the channels encodes the column, the second half the row; each half is sines, then cosines, at the
    frequencies 10000^(-i / (dim / 4)).

    Raises:
        ConfigError: `dim` is not divisible by four.

    Paper: MAE and I-JEPA (src/models/vision_transformer.py); arXiv 1706.03762, section 3.5, once per axis.
    """
    if dim % 4:
        raise ConfigError(
            f"A width of {dim} cannot hold sines and cosines of two axes; use a multiple of 4 for backbone.embed_dim "
            "and method.predictor.predictor_dim."
        )
    frequencies = 10000.0 ** (-torch.arange(dim // 4, dtype=torch.float64) / (dim // 4))
    row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    halves = []
    for axis in (column, row):
        angles = axis.flatten().double()[:, None] * frequencies  # [N, dim / 4]
        halves += [angles.sin(), angles.cos()]
    return torch.cat(halves, dim=1).float()


def resample_positions(positions: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """Position embeddings [1, N_old, D] of a grid (rows, columns), resampled bicubically to another: [1, N_new, D].

    The same grid comes back unchanged. DINO adds .1 to the new size before it scales (vision_transformer.py:182),
    against a rounding fault of old torch; here the size is given as it is.
    """
    if old == new:
        return positions
    # what each old position gives to each new one: a GPU has no deterministic backward pass of bicubic resampling
    units = torch.eye(old[0] * old[1], device=positions.device).unflatten(1, old)[None]  # [1, N_old, rows, columns]
    shares = F.interpolate(units, size=new, mode="bicubic", align_corners=False)[0].flatten(1)  # [N_old, N_new]
    is_planned = positions.device.type == "meta"  # only shapes are asked for, and there is no autocast
    with nullcontext() if is_planned else torch.autocast(positions.device.type, enabled=False):
        return (shares.T @ positions.float()).to(positions.dtype)
