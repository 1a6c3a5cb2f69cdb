"""Metrics over optimizer steps: of one run, or of several seeds as a mean with a band."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Point(NamedTuple):
    """A metric at an optimizer step.

    Attributes:
        step: optimizer steps taken.
        value: of the run, or the mean over runs.
        low, high: least and greatest value of the runs.
        num_runs: runs that measured it at this step.
    """

    step: float
    value: float
    low: float
    high: float
    num_runs: int = 1


def curve(rows: Sequence[dict[str, float]], name: str) -> list[Point]:
    """The rows in which a metric is there and finite."""
    found = ((row["step"], row[name]) for row in rows if name in row and "step" in row)
    return [Point(step, value, value, value) for step, value in found if math.isfinite(value)]


def num_not_finite(rows: Sequence[dict[str, float]], name: str) -> int:
    """How many values of a metric are infinite or not a number."""
    return sum(name in row and not math.isfinite(row[name]) for row in rows)


def band(curves: Sequence[Sequence[Point]]) -> list[Point]:
    """Mean, least and greatest value at every step, over the curves that have a point there."""
    at: dict[float, list[float]] = {}
    for points in curves:
        for point in points:
            at.setdefault(point.step, []).append(point.value)
    return [
        Point(step, statistics.fmean(values), min(values), max(values), len(values))
        for step, values in sorted(at.items())
    ]


def thinned(points: Sequence[Point], max_points: int) -> list[Point]:
    """As it looks, with few points: of each stretch, those with the extremes of the value and of the band."""
    if len(points) <= max_points:
        return list(points)
    num_stretches = (max_points - 2) // 4
    kept = {0, len(points) - 1}
    for i in range(num_stretches):
        stretch = range(len(points) * i // num_stretches, len(points) * (i + 1) // num_stretches)
        kept.add(min(stretch, key=lambda k: points[k].value))
        kept.add(max(stretch, key=lambda k: points[k].value))
        kept.add(min(stretch, key=lambda k: points[k].low))
        kept.add(max(stretch, key=lambda k: points[k].high))
    return [points[k] for k in sorted(kept)]


def pieces(points: Sequence[Point]) -> list[list[Point]]:
    """Stretches with the same number of runs: a mean jumps where a run joins or ends, and no line may say it moved."""
    found: list[list[Point]] = []
    for point in points:
        if found and found[-1][-1].num_runs == point.num_runs:
            found[-1].append(point)
        else:
            found.append([point])
    return found
