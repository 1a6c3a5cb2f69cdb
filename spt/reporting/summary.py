"""summary.json: what a run was and how it ended, for scripts."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from spt.reporting.atomic import write_text

Status = Literal["completed", "failed", "preempted"]


@dataclass(frozen=True)
class Summary:
    """What summary.json holds, under these names and in this order.

    Attributes:
        status: how the run ended; preempted: it was told to stop and can be resumed.
        method, backbone, data, strategy, precision: the options chosen.
        world_size: processes.
        global_batch_size: images of one optimizer step.
        epochs: passes over the data that were finished.
        steps: optimizer steps that were taken.
        seconds: from start to end, evaluations included.
        images_per_second: of training alone, over all processes.
        metrics_at_start: of the untrained network.
        metrics: the latest value of every metric.
        error: one line; for status failed only.
    """

    status: Status
    method: str
    backbone: str
    data: str
    strategy: str
    precision: str
    world_size: int
    global_batch_size: int
    epochs: int
    steps: int
    seconds: float
    images_per_second: float
    metrics_at_start: dict[str, float]
    metrics: dict[str, float]
    error: str | None = None


def write_summary(folder: str | Path, summary: Summary) -> Path:
    """Writes <folder>/summary.json in one move and gives its path. Call it on one process.

    Values that are not finite become null, which JSON has. Of `metrics`, only names of the form "stage/name" are
    kept: the rest is the loggers' own clockwork.
    """
    content: dict[str, object] = asdict(summary)
    content["metrics_at_start"] = _finite(summary.metrics_at_start)
    content["metrics"] = _finite({name: value for name, value in summary.metrics.items() if "/" in name})
    content["seconds"] = round(summary.seconds, 2)
    content["images_per_second"] = round(summary.images_per_second, 2)
    if summary.error is None:
        del content["error"]
    else:
        content["error"] = " ".join(summary.error.split())
    path = Path(folder) / "summary.json"
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
    return path


def _finite(metrics: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in sorted(metrics.items())}
