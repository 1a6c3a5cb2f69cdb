from __future__ import annotations

import pytest
import torch

from spt.config.errors import ConfigError
from spt.data.sampler import EvaluationSampler, GlobalBatchSampler, Position, shuffled
from spt.views.draws import ORDER_STREAM

N, GLOBAL = 53, 12


def make_sampler(
    *, accumulation: int = 1, rank: int = 0, world_size: int = 1, seed: int = 0, epoch: int = 0, start: int = 0
) -> GlobalBatchSampler:
    return GlobalBatchSampler(
        num_images=N,
        global_batch_size=GLOBAL,
        accumulation=accumulation,
        rank=rank,
        world_size=world_size,
        seed=seed,
        position=lambda: Position(epoch, start),
    )


@pytest.mark.parametrize(("world_size", "accumulation"), [(1, 1), (1, 3), (2, 1), (3, 2), (4, 3)])
def test_steps_see_the_same_images_for_any_number_of_processes_and_micro_batches(
    world_size: int, accumulation: int
) -> None:
    """Traps 46 and 88."""
    order = shuffled(N, seed=0, stream=ORDER_STREAM, epoch=0).tolist()
    ranks = [
        list(make_sampler(accumulation=accumulation, rank=rank, world_size=world_size)) for rank in range(world_size)
    ]
    assert {len(batches) for batches in ranks} == {N // GLOBAL * accumulation}
    assert {len(batch) for batches in ranks for batch in batches} == {GLOBAL // (world_size * accumulation)}
    for step in range(N // GLOBAL):
        seen = [
            key.row
            for micro_batch in range(step * accumulation, (step + 1) * accumulation)
            for batches in ranks
            for key in batches[micro_batch]
        ]
        assert seen == order[step * GLOBAL : (step + 1) * GLOBAL]


def test_epoch_sees_no_image_twice_and_every_key_carries_it() -> None:
    keys = [key for batch in make_sampler(epoch=4) for key in batch]
    assert len({key.row for key in keys}) == len(keys) == N // GLOBAL * GLOBAL
    assert {key.epoch for key in keys} == {4}


def test_order_differs_between_epochs_and_seeds_and_is_repeatable() -> None:
    orders = [
        [key.row for batch in make_sampler(seed=seed, epoch=epoch) for key in batch]
        for seed, epoch in ((0, 0), (0, 1), (1, 0), (0, 0))
    ]
    assert orders[0] == orders[3]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_remaining_batches_are_the_end_of_the_epoch() -> None:
    """Traps 87 and 88."""
    whole = list(make_sampler(accumulation=2, world_size=2, rank=1))
    resumed = make_sampler(accumulation=2, world_size=2, rank=1, start=3)
    assert list(resumed) == whole[3:]
    assert len(resumed) == len(whole)


def test_position_is_asked_when_iteration_begins() -> None:
    positions = iter([Position(0, 1), Position(1, 0)])
    sampler = GlobalBatchSampler(
        num_images=N,
        global_batch_size=GLOBAL,
        accumulation=1,
        rank=0,
        world_size=1,
        seed=0,
        position=lambda: next(positions),
    )
    first, second = iter(sampler), iter(sampler)
    assert next(second) == next(iter(make_sampler(epoch=1)))
    assert next(first) == list(make_sampler())[1]


def test_global_batch_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.global_batch_size=10"):
        make_sampler(accumulation=5)


def test_global_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"epoch has no step; use data\.global_batch_size=7"):
        GlobalBatchSampler(
            num_images=7,
            global_batch_size=8,
            accumulation=1,
            rank=0,
            world_size=1,
            seed=0,
            position=lambda: Position(0, 0),
        )


@pytest.mark.parametrize(("count", "world_size"), [(10, 1), (10, 3), (10, 4), (2, 4)])
def test_evaluation_sees_every_image_once_and_flags_duplicates(count: int, world_size: int) -> None:
    """Trap 83."""
    rows = torch.arange(count) + 20
    samplers = [EvaluationSampler(rows, batch_size=3, rank=rank, world_size=world_size) for rank in range(world_size)]
    batches = [list(sampler) for sampler in samplers]
    assert [len(sampler) for sampler in samplers] == [len(batches[0])] * world_size
    assert len({tuple(len(batch) for batch in batches_of_rank) for batches_of_rank in batches}) == 1
    indices = [key.row for batches_of_rank in batches for batch in batches_of_rank for key in batch]
    assert [index for index in indices if index >= 0] == rows.tolist()
    assert len(indices) < count + world_size
