from __future__ import annotations

from pathlib import Path

from spt.reporting.metrics_file import MetricsFile
from spt.reporting.plots import plot_curves


def test_a_run_without_two_values_of_anything_has_no_curves(tmp_path: Path) -> None:
    MetricsFile(tmp_path).log_metrics({"train/loss": 1.0}, step=0)
    assert plot_curves(tmp_path) is None
    assert plot_curves(tmp_path / "absent") is None


def test_values_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    for step, loss in enumerate((2.0, 1.0, float("nan"), float("inf"))):
        file.log_metrics({"train/loss": loss, "train/new_metric": step}, step=step)
    path = plot_curves(tmp_path)
    assert path == tmp_path / "plots" / "curves.png"
    assert path.stat().st_size > 0
