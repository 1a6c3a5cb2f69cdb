"""Where the figures of an evaluation go: beside the run, and into its wandb run."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path

from spt.config.tree import Plain
from spt.reporting.api_key import has_api_key
from spt.reporting.atomic import write_text
from spt.reporting.closing import finish
from spt.reporting.metrics_file import read_metrics
from spt.reporting.wandb import run_ids

logger = logging.getLogger(__name__)


def online_value(run_folder: Path | None, metric: str, step: int | None) -> float | None:
    """What the run's own probe has measured of the same weights; None where it has not, or is not at hand."""
    file = None if run_folder is None else run_folder / "metrics.csv"
    if file is None or not file.is_file():
        return None
    values = [row[metric] for row in read_metrics(file) if row.get("step") == step and metric in row]
    return values[-1] if values and math.isfinite(values[-1]) else None


def write_result(path: Path, content: Mapping[str, object]) -> None:
    """Writes a result in one move."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False) + "\n")


def write_to_wandb(run_folder: Path | None, config: Mapping[str, Plain], summary: Mapping[str, float]) -> None:
    """Adds figures to the summary of the run's wandb run; does nothing where it has none.

    Args:
        run_folder: of the run.
        config: of the run, for the project and entity.
        summary: figures by name.
    """
    run_id = {} if run_folder is None else run_ids(run_folder)
    if run_folder is None or "wandb" not in run_id:
        return
    import wandb  # a second, which runs without it do not wait for

    given = config.get("logger")
    node = given.get("wandb") if isinstance(given, dict) else None
    settings = node if isinstance(node, dict) else {}
    stored_mode = str(settings.get("mode") or "auto")
    mode = os.environ.get("WANDB_MODE") or ("online" if has_api_key() else "offline")
    mode = mode if stored_mode in ("auto", "online") else stored_mode
    project, entity = settings.get("project"), settings.get("entity")
    run = wandb.init(
        id=run_id["wandb"],
        resume="allow",
        dir=str(run_folder),
        project=None if project is None else str(project),
        entity=None if entity is None else str(entity),
        mode="offline" if mode == "offline" else "disabled" if mode == "disabled" else "online",
        settings=wandb.Settings(console="off", silent=mode != "online"),
    )
    run.summary.update(dict(summary))
    finish(exit_code=0)
    if mode == "offline":
        logger.info("wandb is offline; to upload the figures later: wandb sync %s/wandb/offline-run-*", run_folder)
