"""Which images go where: every optimizer step's global batch, divided over processes and micro-batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Sampler

from spt.config.errors import ConfigError
from spt.data.images import Key
from spt.views.draws import ORDER_STREAM, hashes

# N images, G global batch, W processes, A micro-batches of a step


class Position(NamedTuple):
    """Where in the data training is.

    Attributes:
        epoch: passes over the data that are complete.
        start: micro-batches of this pass that each process has already trained on.
    """

    epoch: int
    start: int


def shuffled(num_images: int, *, seed: int, stream: int, epoch: int) -> Tensor:
    """[N], int64, a permutation that depends on these numbers alone."""
    indices = torch.arange(num_images)
    return hashes(seed, stream, torch.full_like(indices, epoch), indices, 1)[:, 0].argsort(stable=True)


class GlobalBatchSampler(Sampler[list[Key]]):
    """Micro-batches of one process, from where training stands.

    Images [k G, (k + 1) G) of an epoch's permutation are the global batch of step k, for any number of processes and
    micro-batches: micro-batch a of process r is slice a W + r of its A W slices. Images left over are dropped.

    Args:
        num_images: N.
        global_batch_size: G, images of one optimizer step over all processes and micro-batches.
        accumulation: A.
        rank: r.
        world_size: W.
        seed: of the run.
        position: asked at the beginning of every iteration, not once: data loaders read ahead, also after a resume.

    Raises:
        ConfigError: G does not divide evenly, or is larger than the data set.
    """

    def __init__(
        self,
        *,
        num_images: int,
        global_batch_size: int,
        accumulation: int,
        rank: int,
        world_size: int,
        seed: int,
        position: Callable[[], Position],
    ) -> None:
        slices = accumulation * world_size
        if global_batch_size < 1 or global_batch_size % slices != 0:
            nearest = max(1, round(global_batch_size / slices)) * slices
            raise ConfigError(
                f"data.global_batch_size={global_batch_size} does not divide into {world_size} devices x "
                f"{accumulation} micro-batches; use data.global_batch_size={nearest}."
            )
        if global_batch_size > num_images:
            raise ConfigError(
                f"data.global_batch_size={global_batch_size} is larger than the {num_images} training images, so an "
                f"epoch has no step; use data.global_batch_size={max(1, num_images // slices) * slices} or less."
            )
        self.num_images = num_images
        self.global_batch_size = global_batch_size
        self.accumulation = accumulation
        self.rank = rank
        self.world_size = world_size
        self.seed = seed
        self.position = position

    def __len__(self) -> int:
        """Micro-batches of a whole epoch, wherever it is begun."""
        return self.num_images // self.global_batch_size * self.accumulation

    def __iter__(self) -> Iterator[list[Key]]:
        """Keys of the micro-batches that are left of the epoch."""
        # asked now, not at the first batch: by then the trainer's counters may have moved on
        return self._batches(*self.position())

    def _batches(self, epoch: int, start: int) -> Iterator[list[Key]]:
        order = shuffled(self.num_images, seed=self.seed, stream=ORDER_STREAM, epoch=epoch)
        size = self.global_batch_size // (self.accumulation * self.world_size)
        for micro_batch in range(start, len(self)):
            first = (micro_batch * self.world_size + self.rank) * size
            yield [Key(epoch, index) for index in order[first : first + size].tolist()]


class EvaluationSampler(Sampler[list[Key]]):
    """Batches of one process's contiguous stripe of some images; every process has as many batches, of the same sizes.

    Args:
        rows: [n], int64, positions in the set, in order.
        batch_size: images per device.
        rank: of this process.
        world_size: processes.
        epoch: the pass over the data that the keys name.
    """

    def __init__(self, rows: Tensor, *, batch_size: int, rank: int = 0, world_size: int = 1, epoch: int = 0) -> None:
        share = math.ceil(len(rows) / world_size)
        stripe = rows[rank * share : (rank + 1) * share].tolist()
        # duplicates that keep collective calls in step; their index says that no metric may count them
        self.indices = stripe + [-1] * (share - len(stripe))
        self.batch_size = batch_size
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches, the same number on every process."""
        return math.ceil(len(self.indices) / self.batch_size)

    def __iter__(self) -> Iterator[list[Key]]:
        """Keys of one batch after the other."""
        for first in range(0, len(self.indices), self.batch_size):
            yield [Key(self.epoch, index) for index in self.indices[first : first + self.batch_size]]
