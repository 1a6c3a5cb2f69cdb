"""Counters of a checkpoint, for a run that cuts its optimizer steps into another number of micro-batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from spt.config.errors import CheckpointError

RUN = "run"
"""Key of a checkpoint under which `spt.checkpoint.card` says what wrote it."""


def rescale(rest: Mapping[str, object], path: Path, *, accumulation: int) -> dict[str, object]:
    """A checkpoint's plain data with Lightning's counters of micro-batches in this run's unit.

    Everything else counts optimizer steps and epochs, which stay.

    Args:
        rest: as `Stored.rest` has it; not changed.
        path: for the message.
        accumulation: micro-batches of an optimizer step in this run.

    Raises:
        CheckpointError: nothing says what wrote the file.
    """
    run = rest.get(RUN)
    if not isinstance(run, dict) or "loops" not in rest:
        raise CheckpointError(
            f"{path} is no checkpoint of a run of this project: it does not say which run wrote it. For weights alone "
            f"use backbone.init_from={path}."
        )
    before = int(run["accumulate_grad_batches"])
    if before == accumulation:
        return dict(rest)
    changed = copy.deepcopy({"loops": rest["loops"]})
    loops = cast("dict[str, dict[str, dict[str, dict[str, int]]]]", changed["loops"])
    batches = loops["fit_loop"]["epoch_loop.batch_progress"]
    for counts in (batches["total"], batches["current"]):
        # saved on the edge of a step, where the last micro-batch may be processed and not yet completed
        pending = counts["processed"] - counts["completed"]
        for name in ("ready", "started", "processed"):
            counts[name] = counts[name] // before * accumulation
        counts["completed"] = counts["processed"] - pending
    return {**rest, **changed}
