"""Every image once an epoch, in the same order, whether or not the run was interrupted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.checkpoint.elastic import SAVED_AT, Place, traces
from tests.ranks import run_ranks
from tests.strategies.cases import GLOBAL_BATCH, STEPS

WORKERS = (0, 2)


@pytest.mark.parametrize("place", [Place("single", 1), Place("ddp", 2)], ids=str)
def test_every_image_is_seen_once_an_epoch_across_a_resume(tmp_path: Path, place: Place) -> None:
    """Traps 86, 87, 88: no image twice, none left out, none in another place, with workers that read ahead too."""
    ranks = run_ranks(traces, place.num_ranks, tmp_path, place, WORKERS, has_workers=True)
    for workers in WORKERS:
        before = [rank[workers][0][:SAVED_AT] for rank in ranks]
        after = [rank[workers][1] for rank in ranks]
        joined = [[*first, *rest] for first, rest in zip(before, after, strict=True)]
        assert joined == [rank[workers][0] for rank in ranks]
        images = Counter((epoch, image) for part in (*before, *after) for epoch, images in part for image in images)
        assert images == Counter((epoch, image) for epoch in range(3) for image in range(STEPS * GLOBAL_BATCH))
