from __future__ import annotations

from pathlib import Path

import pytest

from spt.reporting.metrics_file import MetricsFile, read_metrics


def filled(folder: Path) -> MetricsFile:
    file = MetricsFile(folder)
    file.log_metrics({"val/knn_top1": 0.25}, step=0)
    for step in (0, 3, 6):
        file.log_metrics({"train/loss": 9.0 - step, "epoch": step // 4}, step=step)
    return file


def test_nothing_is_written_before_the_first_metric(tmp_path: Path) -> None:
    MetricsFile(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_metrics_of_one_step_share_a_row(tmp_path: Path) -> None:
    filled(tmp_path)
    rows = read_metrics(tmp_path / "metrics.csv")
    assert [row["step"] for row in rows] == [0, 3, 6]
    assert rows[0] == {"step": 0, "val/knn_top1": 0.25, "train/loss": 9, "epoch": 0}


def test_columns_appear_as_metrics_do(tmp_path: Path) -> None:
    file = filled(tmp_path)
    file.log_metrics({"collapse/rankme": 12.5}, step=8)
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert lines[0] == "step,val/knn_top1,train/loss,epoch,collapse/rankme"
    assert lines[1] == "0,0.25,9,0,"
    assert lines[-1] == "8,,,,12.5"


def test_a_row_is_on_disk_as_soon_as_it_is_logged(tmp_path: Path) -> None:
    filled(tmp_path)  # neither saved nor finalized
    assert (tmp_path / "metrics.csv").read_text().endswith("6,,3,1\n")


def test_the_latest_value_of_every_metric_is_known(tmp_path: Path) -> None:
    assert filled(tmp_path).latest == {"val/knn_top1": 0.25, "train/loss": 3, "epoch": 1}


def test_a_resumed_run_goes_on_in_the_file(tmp_path: Path) -> None:
    filled(tmp_path)
    resumed = MetricsFile(tmp_path)
    resumed.log_metrics({"train/loss": 1.5}, step=9)
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.csv")] == [0, 3, 6, 9]
    assert resumed.latest["val/knn_top1"] == 0.25


def test_rows_past_the_resumed_step_are_dropped(tmp_path: Path) -> None:
    filled(tmp_path)
    resumed = MetricsFile(tmp_path)
    resumed.drop_after(3)
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.csv")] == [0, 3]
    assert resumed.latest["train/loss"] == 6


def test_a_row_of_an_earlier_step_replaces_what_came_after_it(tmp_path: Path) -> None:
    filled(tmp_path)
    resumed = MetricsFile(tmp_path)
    resumed.log_metrics({"train/loss": 5.5}, step=4)
    rows = read_metrics(tmp_path / "metrics.csv")
    assert [(row["step"], row.get("train/loss")) for row in rows] == [(0, 9), (3, 6), (4, 5.5)]


@pytest.mark.parametrize("cut", [1, 2, 4, 6])
def test_a_row_cut_short_by_a_kill_costs_that_row_alone(tmp_path: Path, cut: int) -> None:
    filled(tmp_path)
    path = tmp_path / "metrics.csv"
    path.write_text(path.read_text()[:-cut])
    resumed = MetricsFile(tmp_path)
    resumed.log_metrics({"train/loss": 2.5}, step=7)
    assert [row["step"] for row in read_metrics(path)] == [0, 3, 7]


def test_a_row_that_grows_is_not_written_twice(tmp_path: Path) -> None:
    file = filled(tmp_path)
    file.log_metrics({"train/loss": 2.5}, step=6)
    assert [row["train/loss"] for row in read_metrics(tmp_path / "metrics.csv")] == [9, 6, 2.5]


def test_values_that_are_not_finite_come_back(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    file.log_metrics({"train/loss": float("inf")}, step=1)
    assert read_metrics(tmp_path / "metrics.csv") == [{"step": 1, "train/loss": float("inf")}]
