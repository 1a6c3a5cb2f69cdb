from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from spt.reporting.summary import Summary, write_summary

DONE = Summary(
    status="completed",
    method="dino",
    backbone="vit_micro",
    data="digits",
    strategy="single",
    precision="32-true",
    world_size=1,
    global_batch_size=128,
    epochs=20,
    steps=220,
    seconds=61.2345,
    images_per_second=1234.567,
    metrics_at_start={"val/knn_top1": 0.25},
    metrics={"train/loss": 2.5, "val/knn_top1": 0.75, "epoch": 19.0, "step": 220.0},
)


def written(folder: Path, summary: Summary) -> dict[str, object]:
    content: dict[str, object] = json.loads(write_summary(folder, summary).read_text())
    return content


def test_a_completed_run_has_exactly_these_keys(tmp_path: Path) -> None:
    assert list(written(tmp_path, DONE)) == [
        *("status", "method", "backbone", "data", "strategy", "precision", "world_size", "global_batch_size"),
        *("epochs", "steps", "seconds", "images_per_second", "metrics_at_start", "metrics"),
    ]


def test_only_metrics_are_among_the_metrics(tmp_path: Path) -> None:
    assert written(tmp_path, DONE)["metrics"] == {"train/loss": 2.5, "val/knn_top1": 0.75}


def test_a_failed_run_tells_its_error_in_one_line(tmp_path: Path) -> None:
    failed = replace(DONE, status="failed", error="the loss is nan\n  at step 7")
    assert written(tmp_path, failed)["error"] == "the loss is nan at step 7"


def test_a_value_that_is_not_finite_leaves_the_file_readable(tmp_path: Path) -> None:
    assert written(tmp_path, replace(DONE, metrics={"train/loss": float("nan")}))["metrics"] == {"train/loss": None}


def test_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    write_summary(tmp_path, DONE)
    write_summary(tmp_path, DONE)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
