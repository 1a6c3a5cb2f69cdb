"""Multi-block masks: what I-JEPA hides and what it must predict."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from spt.config.errors import ConfigError
from spt.distributed.gather import smallest_over_hosts
from spt.types import Masks, Progress, Sample
from spt.views.draws import BLOCK_PLACE_STREAM, BLOCK_SIZE_STREAM, KEPT_TOKENS_STREAM, uniform

# B images per device, M target blocks, A attempts, G tokens along a side of the grid, N = G * G tokens

_TRIES = 20  # places of the context block tried before it may overlap one target more, as the authors do


class _Block(NamedTuple):
    height: int
    width: int

    @property
    def tokens(self) -> int:
        return self.height * self.width


class MultiBlock:
    """Target blocks and a context block on the grid of patches, drawn for every image on its own.

    Block sizes follow from (seed, step), so that the batch and all ranks share them; places from (seed, epoch, index).
    The context is its block without the targets. All contexts of a micro-batch are cut to the shortest of all ranks,
    so that they stack: a shape, so samples come while they are on the host, else their device is waited for.
    Paper: I-JEPA, arXiv 2301.08243, section 3 and A.1.

    Args:
        seed: of the run.
        image_size: pixels of the global view.
        patch_size: pixels of a patch.
        context_scale: [low, high], area of the context block as a share of the grid.
        context_ratio: [low, high], height / width of the context block.
        target_scale: [low, high], area of a target block as a share of the grid.
        target_ratio: [low, high], height / width of a target block.
        num_targets: M, target blocks of an image; they may overlap each other.
        min_keep: context tokens that must be left; a context block is drawn anew while fewer are, and after 20 places
            it may keep the last target, after 40 the last two, and so on.
        edges: reachable: a block may lie anywhere; official: the last row and column of the grid are in no block.
        truncation: random: contexts lose tokens evenly; raster: they lose their lowest rows.
        scale_and_ratio: independent: two draws; one_draw: large blocks are tall ones.

    Raises:
        ConfigError: the grid has no room for what is asked.
    """

    def __init__(
        self,
        *,
        seed: int,
        image_size: int,
        patch_size: int,
        context_scale: list[float],
        context_ratio: list[float],
        target_scale: list[float],
        target_ratio: list[float],
        num_targets: int,
        min_keep: int,
        edges: Literal["reachable", "official"],
        truncation: Literal["random", "raster"],
        scale_and_ratio: Literal["independent", "one_draw"],
    ) -> None:
        self.seed = seed
        self.grid = image_size // patch_size
        self.context_scale, self.context_ratio = context_scale, context_ratio
        self.target_scale, self.target_ratio = target_scale, target_ratio
        self.num_targets = num_targets
        self.min_keep = min_keep
        self.edges = edges
        self.truncation = truncation
        self.scale_and_ratio = scale_and_ratio
        _check_word("edges", edges, ("reachable", "official"))
        _check_word("truncation", truncation, ("random", "raster"))
        _check_word("scale_and_ratio", scale_and_ratio, ("independent", "one_draw"))
        self._check_room(f"views.global_size={image_size} with backbone.patch_size={patch_size}")

    def __call__(self, sample: Sample, progress: Progress) -> Masks:
        """Token positions for a sample, on its device: context [B, N_context], targets [M, B, N_target]."""
        target, context = self._sizes(progress.step)
        attempts = _TRIES * (self.num_targets + 1)
        count = 2 * (self.num_targets + attempts)
        draws = uniform(self.seed, BLOCK_PLACE_STREAM, sample.epochs, sample.indices, count)
        places = draws.view(len(draws), -1, 2)  # [B, M + A, 2]
        target_corners = self._corners(places[:, : self.num_targets], target)  # [B, M, 2]
        in_target = self._cover(target_corners, target)  # [B, M, G, G]
        context_corners = self._corners(places[:, self.num_targets :], context)  # [B, A, 2]
        kept = self._context(context_corners, context, in_target)  # [B, N]
        targets = self._positions(target_corners, target)  # [B, M, N_target]
        return Masks(self._stack(kept, sample), targets.transpose(0, 1).contiguous())

    def _sizes(self, step: int) -> tuple[_Block, _Block]:
        """The step's target and context block. Drawn on the CPU: they are shapes, and no device need be waited for."""
        draws = uniform(self.seed, BLOCK_SIZE_STREAM, torch.tensor([0]), torch.tensor([step]), 4)[0].tolist()
        if self.scale_and_ratio == "one_draw":
            draws = [draws[0], draws[0], draws[2], draws[2]]
        target = self._block(_between(draws[0], self.target_scale), _between(draws[1], self.target_ratio))
        context = self._block(_between(draws[2], self.context_scale), _between(draws[3], self.context_ratio))
        return target, context

    def _block(self, scale: float, ratio: float) -> _Block:
        area = int(self.grid**2 * scale)
        longest = self.grid - 1 if self.edges == "official" else self.grid
        height, width = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        return _Block(min(height, longest), min(width, longest))

    def _corners(self, draws: Tensor, block: _Block) -> Tensor:
        """[B, K, 2] draws to rows and columns of top left corners, int64."""
        choices = [self.grid - side + (0 if self.edges == "official" else 1) for side in block]
        rows, columns = (
            (draws[..., axis] * choices[axis]).long().clamp(max=choices[axis] - 1) for axis in range(2)
        )  # rounding of the product may reach the number of choices
        return torch.stack((rows, columns), dim=-1)

    def _cover(self, corners: Tensor, block: _Block) -> Tensor:
        """Which cells each block covers: [B, K, 2] to [B, K, G, G], bool."""
        cells = torch.arange(self.grid, device=corners.device)
        rows, columns = (
            (cells >= corners[..., axis, None]) & (cells < corners[..., axis, None] + side)
            for axis, side in enumerate(block)
        )  # [B, K, G]
        return rows[..., :, None] & columns[..., None, :]

    def _positions(self, corners: Tensor, block: _Block) -> Tensor:
        """Raster positions of each block's tokens: [B, K, 2] to [B, K, tokens]."""
        rows = torch.arange(block.height, device=corners.device)[:, None] * self.grid
        offsets = (rows + torch.arange(block.width, device=corners.device)).flatten()  # [tokens]
        return (corners[..., 0] * self.grid + corners[..., 1])[..., None] + offsets

    def _context(self, corners: Tensor, block: _Block, in_target: Tensor) -> Tensor:
        """The first acceptable context of each image: [B, A, 2], [B, M, G, G] to [B, N], bool."""
        rounds = [in_target[:, : self.num_targets - less].any(dim=1) for less in range(self.num_targets + 1)]
        free = ~torch.stack(rounds, dim=1)  # [B, M + 1, G, G]; every round leaves out one target less
        # sums over rectangles from a summed-area table: an attempt costs four look-ups
        table = F.pad(free.long().cumsum(-1).cumsum(-2), (1, 0, 1, 0)).flatten(2)  # [B, M + 1, (G + 1)^2]
        row = corners.view(len(corners), self.num_targets + 1, _TRIES, 2)  # [B, M + 1, A / (M + 1), 2]
        start = row[..., 0] * (self.grid + 1) + row[..., 1]
        down, right = block.height * (self.grid + 1), block.width
        left = table.gather(2, start + down + right) - table.gather(2, start + down)
        left = left - table.gather(2, start + right) + table.gather(2, start)
        chosen = (left.flatten(1) >= self.min_keep).int().argmax(dim=1)  # [B], the first
        images = torch.arange(len(corners), device=corners.device)
        in_block = self._cover(corners[images, chosen][:, None], block)[:, 0]  # [B, G, G]
        return (in_block & free[images, chosen // _TRIES]).flatten(1)

    def _stack(self, kept: Tensor, sample: Sample) -> Tensor:
        """Positions of the kept tokens, as many for every image as the shortest has: [B, N] bool to [B, N_context]."""
        # of all ranks, so that their number changes nothing
        shortest = smallest_over_hosts(int(kept.sum(dim=1).min()))
        if self.truncation == "random":
            order = uniform(self.seed, KEPT_TOKENS_STREAM, sample.epochs, sample.indices, kept.shape[1])  # [B, N]
        else:
            order = torch.arange(kept.shape[1], 0, -1, dtype=torch.float32, device=kept.device) / (kept.shape[1] + 1)
        return torch.where(kept, order, -1.0).topk(shortest, dim=1).indices.sort(dim=1).values

    def _check_room(self, given: str) -> None:
        """Refuses grids that are too small, from the smallest and largest blocks that may be drawn."""
        if self.grid < 1:
            raise ConfigError(f"{given}: not one patch fits; use backbone.patch_size of at most the image's size.")
        targets, contexts = [
            [self._block(_between(a, scale), _between(b, ratio)) for a in (0, 0.5, 1) for b in (0, 0.5, 1)]
            for scale, ratio in ((self.target_scale, self.target_ratio), (self.context_scale, self.context_ratio))
        ]
        tokens = self.grid**2
        grid = f"{given} makes a grid of {self.grid} x {self.grid} tokens"
        if max(self.context_scale[1], self.target_scale[1]) > 1:
            raise ConfigError(
                f"masks.context_scale={self.context_scale} and masks.target_scale={self.target_scale} are shares of "
                f"the grid, and one asks for more tokens than the {tokens} there are; use numbers up to 1."
            )
        if min(min(block) for block in targets + contexts) < 1 or self.num_targets < 1:
            raise ConfigError(
                f"{grid}, where masks.target_scale={self.target_scale} is less than one token or there is no target; "
                f"use masks.target_scale=[{min(1.0, math.ceil(400 / tokens) / 100)},1] or a smaller patch."
            )
        target, context = max(block.tokens for block in targets), min(block.tokens for block in contexts)
        # tokens that blocks placed independently leave free
        left = int(context * (1 - target / tokens) ** self.num_targets)
        if left < self.min_keep:
            raise ConfigError(
                f"{grid}, and {self.num_targets} targets of {target} tokens leave about {left} of {context} context "
                f"tokens, fewer than masks.min_keep={self.min_keep}; use masks.min_keep={max(1, left // 2)}, fewer or "
                "smaller targets, or larger images."
            )


def _between(draw: float, limits: list[float]) -> float:
    return limits[0] + (limits[1] - limits[0]) * draw


def _check_word(key: str, word: str, known: tuple[str, str]) -> None:
    if word not in known:
        raise ConfigError(f"masks.{key}={word} is unknown; use masks.{key}={known[0]} or masks.{key}={known[1]}.")
