from __future__ import annotations

import math

import pytest

from spt.report.chart import extent, ticks
from spt.report.curves import Point, band, curve, pieces, thinned
from spt.report.text import difference, duration, measured, number, printable, spread


def test_a_curve_has_the_finite_values_alone() -> None:
    rows = [{"step": 1.0, "a": 2.0}, {"step": 2.0}, {"step": 3.0, "a": math.nan}, {"step": 4.0, "a": 5.0}]
    assert [point[:2] for point in curve(rows, "a")] == [(1, 2), (4, 5)]


def test_a_band_is_the_mean_and_the_extremes_of_the_runs_that_have_a_value() -> None:
    curves = [[Point(1, 2, 2, 2), Point(2, 3, 3, 3)], [Point(1, 6, 6, 6)], [Point(1, 1, 1, 1), Point(3, 7, 7, 7)]]
    assert band(curves) == [Point(1, 3, 1, 6, 3), Point(2, 3, 3, 3, 1), Point(3, 7, 7, 7, 1)]


def test_a_line_is_interrupted_where_the_number_of_runs_changes() -> None:
    points = [Point(i, i, i, i, runs) for i, runs in enumerate((3, 3, 2, 2, 2, 1))]
    assert [[point.step for point in piece] for piece in pieces(points)] == [[0, 1], [2, 3, 4], [5]]


def test_a_long_curve_keeps_its_ends_and_its_extremes() -> None:
    points = [Point(i, math.sin(i / 700), math.sin(i / 700) - 0.1, math.sin(i / 700) + 0.1) for i in range(9973)]
    points[5001] = Point(5001, 40.0, 40.0, 41.0)
    points[7007] = Point(7007, 0.0, -30.0, 0.0)
    kept = thinned(points, 400)
    assert len(kept) <= 400
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert points[5001] in kept
    assert points[7007] in kept
    assert kept == sorted(kept)


def test_a_short_curve_is_kept_whole() -> None:
    points = [Point(i, i, i, i) for i in range(400)]
    assert thinned(points, 400) == points


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (-0.2, 0.9, [0, 0.5]),
        (0.55, 0.75, [0.55, 0.6, 0.65, 0.7, 0.75]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_ticks_are_round_numbers_within_the_axis(low: float, high: float, expected: list[float]) -> None:
    found = ticks(low, high)
    assert found == pytest.approx(expected)
    assert "-0" not in [f"{value:g}" for value in found]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([2.0, 4.0], (1.9, 4.1)),
        ([0.01, 4.0], (0, 4.1995)),
        ([-1.0, 1.0], (-1.1, 1.1)),
        ([3.0, 3.0], (0, 6)),
        ([0.0], (-1, 1)),
    ],
)
def test_an_axis_has_room_around_the_values(values: list[float], expected: tuple[float, float]) -> None:
    assert extent(values) == pytest.approx(expected)


def test_numbers_are_written_for_people() -> None:
    assert [number(value) for value in (None, 0.0, 0.0123456, 12.1869, 1234567.0, 3e-5, -2.5, math.nan)] == [
        "\u2013", "0", "0.0123", "12.19", "1.23e+06", "3e\u221205", "\u22122.5", "nan",
    ]  # fmt: skip
    assert measured("val/knn_top1", 0.75) == "0.750"
    assert difference("val/knn_top1", 0.75, 0.5) == "\u22120.250"
    assert spread("val/knn_top1", [0.70, 0.75, 0.8]) == "0.750 \u00b1 0.050"
    assert [duration(value) for value in (None, 24.4, 200, 18420, 200000)] == [
        "\u2013", "24 s", "3 min 20 s", "5 h 7 min", "2 d 7 h",
    ]  # fmt: skip


def test_colours_of_a_terminal_are_not_text() -> None:
    assert printable("\x1b[31mred\x1b[0m \x07bell\ttab\nline") == "red bell\ttab\nline"
