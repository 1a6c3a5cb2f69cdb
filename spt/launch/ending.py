"""summary.json of a run whose rank 0 could not write the truth: it was killed, or saw only another rank's end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from spt.config.handover import run_choices
from spt.reporting.atomic import write_text
from spt.reporting.metric_rows import read_metrics
from spt.reporting.summary import Status, Summary, write_summary

if TYPE_CHECKING:
    from omegaconf import DictConfig


def write_ending(
    cfg: DictConfig, folder: Path, status: Status, error: str | None, *, world_size: int, seconds: float
) -> None:
    """Writes how a run ended, over what rank 0 took it for.

    Args:
        cfg: of the run.
        folder: of the run.
        status: how it ended.
        error: one line, for failed runs.
        world_size: processes.
        seconds: since they were started.
    """
    file = folder / "summary.json"
    if not file.is_file():
        write_summary(folder, _from_metrics(cfg, folder, status, world_size=world_size, seconds=seconds))
    content = json.loads(file.read_text(encoding="utf-8"))
    content["status"] = status
    content.pop("error", None)
    if error is not None:
        content["error"] = error
    write_text(file, json.dumps(content, indent=2, allow_nan=False) + "\n")


def _from_metrics(cfg: DictConfig, folder: Path, status: Status, *, world_size: int, seconds: float) -> Summary:
    """What metrics.csv tells of a run: its last row is on disk."""
    rows = read_metrics(folder / "metrics.csv")
    choices = run_choices()
    latest = {name: value for row in rows for name, value in row.items()}
    first = {name: value for name, value in rows[0].items() if "/" in name} if rows and rows[0]["step"] == 0 else {}
    return Summary(
        status=status,
        method=choices["method"],
        backbone=choices["backbone"],
        data=choices["data"],
        strategy=choices["strategy"],
        precision=choices["precision"],
        world_size=world_size,
        global_batch_size=cfg.data.global_batch_size,
        epochs=int(latest.get("epoch", 0)),
        steps=int(latest.get("step", 0)),
        seconds=seconds,
        images_per_second=latest.get("train/images_per_second", 0.0),
        metrics_at_start=first,
        metrics=latest,
        error=None,
    )
