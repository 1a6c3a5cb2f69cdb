"""The table tells settings apart, averages over seeds, and puts last what did not complete."""

from __future__ import annotations

import statistics

import pytest

from spt.sweep.record import JobStatus
from spt.sweep.rows import Row
from spt.sweep.table import duration, headline, markdown, text

KNN = "val/knn_top1"


def row(*overrides: str, value: float | None = None, status: JobStatus = "completed", reason: str | None = None) -> Row:
    metrics = {} if value is None else {KNN: value}
    return Row(list(overrides), status, reason, 61.0, 1, metrics, f"/sweep/{'-'.join(overrides)}")


def cells(table: str) -> list[list[str]]:
    """Cells of a Markdown table's lines, those of its frame left out."""
    lines = [line for line in table.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_only_jobs_that_differ_in_their_seed_alone_are_averaged() -> None:
    values = {"1": 0.5, "2": 0.9, "3": 0.7}
    rows = [row("method=dino", f"seed={seed}", value=value) for seed, value in values.items()]
    rows += [row("method=byol", "seed=1", value=0.1)]
    lines = cells(markdown(rows, [KNN]))
    means = [line for line in lines if line[1].startswith("mean")]
    deviation = statistics.stdev(values.values())  # of a sample
    assert means == [["dino", "mean of 3", f"0.70 +- {deviation:.2f}", "1 min 1 s", ""]]


def test_what_failed_comes_last_with_its_reason_and_is_in_no_mean() -> None:
    rows = [
        row("method=dino", "seed=1", status="failed", reason="no | memory"),
        row("method=dino", "seed=2", value=0.5),
        row("method=dino", "seed=3", status="killed", reason="SIGKILL"),
        row("method=dino", "seed=4", value=0.7),
    ]
    shown = text(rows, [KNN])
    assert "mean of 2" in shown
    lines = shown.splitlines()
    assert lines[-2].split()[:3] == ["3", "killed", "SIGKILL"]
    assert lines[-1].startswith("1     failed  no | memory")
    assert "no \\| memory" in markdown(rows, [KNN])


def test_columns_are_the_keys_that_differ_and_the_rest_is_said_once() -> None:
    rows = [row("data=fake", "seed=1", value=0.5), row("data=fake", "seed=2", "optimizer.lr=0.1", value=0.6)]
    assert cells(markdown(rows, [KNN]))[0] == ["seed", "optimizer.lr", KNN, "time", "folder"]
    assert headline(rows) == "2 jobs: 2 completed\nall with data=fake"


def test_columns_are_aligned() -> None:
    shown = text([row("method=dino", value=0.5), row("method=simclr", value=0.125)], [KNN])
    starts = {line.index(word) for line, word in zip(shown.splitlines(), (KNN, "0.5000", "0.1250"), strict=True)}
    assert len(starts) == 1


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0 s"), (59.4, "59 s"), (60.2, "1 min 0 s"), (3720.0, "1 h 2 min")]
)
def test_durations_read_well(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
