from __future__ import annotations

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from spt.config.errors import ConfigError
from spt.types import Masks, Progress, Sample
from spt.views.masks import MultiBlock

B, GRID = 128, 14
TOKENS = GRID**2


def make_masks(
    *,
    seed: int = 0,
    image_size: int = 224,
    patch_size: int = 16,
    context_scale: tuple[float, float] = (0.85, 1.0),
    target_scale: tuple[float, float] = (0.15, 0.2),
    min_keep: int = 10,
    edges: str = "reachable",
    truncation: str = "random",
    scale_and_ratio: str = "independent",
) -> MultiBlock:
    return MultiBlock(
        seed=seed,
        image_size=image_size,
        patch_size=patch_size,
        context_scale=list(context_scale),
        context_ratio=[1.0, 1.0],
        target_scale=list(target_scale),
        target_ratio=[0.75, 1.5],
        num_targets=4,
        min_keep=min_keep,
        edges=edges,
        truncation=truncation,
        scale_and_ratio=scale_and_ratio,
    )


def official(*, seed: int = 0) -> MultiBlock:
    return make_masks(seed=seed, min_keep=11, edges="official", truncation="raster", scale_and_ratio="one_draw")


def draw(masks: MultiBlock, *, step: int = 0, first: int = 0, count: int = B, epoch: int = 0) -> Masks:
    indices = torch.arange(first, first + count)
    sample = Sample(torch.zeros(0), torch.zeros_like(indices), indices, torch.full_like(indices, epoch))
    return masks(sample, Progress(step, 100, 10))


def block_shape(tokens: Tensor) -> tuple[int, int]:
    rows, columns = tokens // GRID, tokens % GRID
    return int(rows.max() - rows.min()) + 1, int(columns.max() - columns.min()) + 1


@pytest.mark.parametrize("masks", [make_masks(), official()], ids=["default", "official"])
def test_context_and_targets_are_disjoint_positions_in_order(masks: MultiBlock) -> None:
    context, targets = draw(masks, count=9)
    assert context.shape[0] == 9
    assert targets.shape[:2] == (4, 9)
    for image in range(9):
        seen = context[image].tolist()
        assert seen == sorted(set(seen))
        assert 0 <= seen[0] <= seen[-1] < TOKENS
        for block in targets[:, image]:
            assert not set(seen) & set(block.tolist())


def test_targets_are_whole_rectangles_of_the_asked_area() -> None:
    for step in range(20):
        targets = draw(make_masks(), step=step, count=3).targets
        for block in targets.flatten(0, 1):
            height, width = block_shape(block)
            assert height * width == len(block.unique()) == targets.shape[-1]
            assert 0.15 * TOKENS * 0.8 < len(block) < 0.2 * TOKENS * 1.2
            assert 0.6 < height / width < 1.8


def test_official_sampling_leaves_as_many_tokens_as_measured() -> None:
    steps = [draw(official(), step=step, first=B * step) for step in range(40)]
    context = sum(step.context.shape[1] for step in steps) / 40
    target = sum(step.targets.shape[2] for step in steps) / 40
    assert abs(context - 50.9) < 0.05 * 50.9
    assert abs(target - 33.2) < 0.03 * 33.2


def count_positions(masks: MultiBlock, num_images: int) -> tuple[Tensor, Tensor]:
    """How often each token is context, and target: [TOKENS], [TOKENS]."""
    context, target = torch.zeros(TOKENS), torch.zeros(TOKENS)
    for step, first in enumerate(range(0, num_images, 500)):
        drawn = draw(masks, step=step, first=first, count=500)
        context += torch.bincount(drawn.context.flatten(), minlength=TOKENS)
        target += torch.bincount(drawn.targets.flatten(), minlength=TOKENS)
    return context, target


def test_every_token_can_be_context_and_target() -> None:
    """Trap 72."""
    context, target = count_positions(make_masks(), 10_000)
    assert context.min() > 0
    assert target.min() > 0


def test_official_edges_never_use_the_last_row_and_column() -> None:
    """Trap 72."""
    for counts in count_positions(official(), 10_000):
        grid = counts.view(GRID, GRID)
        assert grid[-1].sum() == grid[:, -1].sum() == 0
        assert grid[-2, :-1].min() + grid[:-1, -2].min() > 0


def test_random_truncation_keeps_low_rows_as_often_as_high_ones() -> None:
    """Trap 73."""
    counts = count_positions(make_masks(), 3000)[0].view(GRID, GRID).sum(dim=1)
    # blocks have no up and down: what row r keeps, row 13 - r must keep. Tokens of an image depend on each other: / 20
    pairs = torch.stack((counts[: GRID // 2], counts.flip(0)[: GRID // 2])) / 20
    for pair in pairs.T:
        assert chisquare(pair.numpy()).pvalue > 1e-3


def test_raster_truncation_loses_the_lowest_rows() -> None:
    """Trap 73."""
    counts = count_positions(make_masks(truncation="raster"), 3000)[0].view(GRID, GRID).sum(dim=1)
    assert counts[0] > 5 * counts[-1]


def target_shapes(masks: MultiBlock) -> set[tuple[int, int]]:
    return {block_shape(draw(masks, step=step, count=1).targets[0, 0]) for step in range(150)}


def test_one_draw_for_scale_and_ratio_gives_five_shapes() -> None:
    """Trap 74."""
    assert target_shapes(official()) == {(5, 6), (6, 5), (6, 6), (7, 5), (8, 5)}


def test_independent_draws_give_more_shapes() -> None:
    """Trap 74."""
    assert len(target_shapes(make_masks())) > 6


def test_images_of_a_batch_have_masks_of_their_own() -> None:
    """Trap 75."""
    context, targets = draw(make_masks(), count=30)
    assert len({tuple(row.tolist()) for row in context}) == 30
    assert len({tuple(row.tolist()) for row in targets.transpose(0, 1).flatten(1)}) > 28


def test_ranks_draw_different_places_but_one_block_size() -> None:
    """Trap 47."""
    first, second = draw(make_masks(), step=5, first=0, count=16), draw(make_masks(), step=5, first=16, count=16)
    assert first.targets.shape == second.targets.shape
    assert not torch.equal(first.targets, second.targets)


def test_masks_are_a_function_of_seed_step_epoch_and_index() -> None:
    """Trap 48."""
    masks = make_masks()
    later = [draw(masks, step=step, count=5) for step in (9, 3, 7)][1]
    assert torch.equal(draw(make_masks(), step=3, count=5).targets, later.targets)
    assert torch.equal(draw(make_masks(), step=3, count=5).context, later.context)
    assert not torch.equal(draw(masks, step=3, count=5, epoch=1).targets, later.targets)
    assert len({draw(masks, step=step, count=1).targets.shape[2] for step in range(30)}) > 2


def test_places_do_not_depend_on_the_rest_of_the_batch() -> None:
    whole, alone = draw(make_masks(), step=2, count=8), draw(make_masks(), step=2, first=5, count=1)
    assert torch.equal(whole.targets[:, 5], alone.targets[:, 0])
    assert set(whole.context[5].tolist()) <= set(alone.context[0].tolist())


def test_context_keeps_the_tokens_that_must_be_left() -> None:
    masks = make_masks(image_size=28, patch_size=4, min_keep=11)
    for step in range(30):
        assert draw(masks, step=step, first=64 * step, count=64).context.shape[1] >= 11


def test_context_keeps_the_last_targets_when_nothing_else_leaves_enough() -> None:
    masks = make_masks(image_size=28, patch_size=4, min_keep=11)
    num_overlaps = 0
    for step in range(30):
        context, targets = draw(masks, step=step, first=64 * step, count=64)
        for row in range(64):
            overlaps = [bool(torch.isin(context[row], block).any()) for block in targets[:, row]]
            num_overlaps += any(overlaps)
            assert any(overlaps[2:]) == any(overlaps)
    assert 0 < num_overlaps < 0.05 * 30 * 64


def test_more_tokens_than_the_grid_has_are_refused() -> None:
    with pytest.raises(ConfigError, match="more tokens than"):
        make_masks(context_scale=(0.85, 1.3))


def test_targets_of_less_than_a_token_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 x 2 tokens"):
        make_masks(image_size=32)


def test_grid_that_leaves_too_little_context_is_refused_with_a_number_that_works() -> None:
    with pytest.raises(ConfigError, match=r"masks\.min_keep=2"):
        make_masks(image_size=16, patch_size=4)
    assert draw(make_masks(image_size=16, patch_size=4, min_keep=2)).context.shape[1] >= 2


def test_unknown_word_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"masks\.edges"):
        make_masks(edges="anywhere")
