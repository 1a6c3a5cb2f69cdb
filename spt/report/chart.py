"""Charts of a page: drawn here as SVG, and once more by page.js, which redraws them to the width of the screen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spt.report.curves import Point, pieces, thinned
from spt.report.markup import Html, element, join
from spt.report.metrics import Metric
from spt.report.text import ARROW, count, measured

_WIDTH, _HEIGHT = 420.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 12.0, 10.0, 34.0
NUM_COLORS = 6
"""Colours of page.css."""
MAX_DOTS = 30
"""Points of a curve up to which each is marked."""
_MAX_DRAWN = 400
"""Points of a still curve: one or two a pixel."""
_DASHES = ("", "7 3", "2 3", "9 3 2 3")


class Series(NamedTuple):
    """Who a curve is of: a run, or a setting of a sweep.

    Attributes:
        number: of its colour and dashes, the same in all charts.
        label: for people.
        is_shown: drawn until the reader asks for others.
    """

    number: int
    label: str
    is_shown: bool = True

    @property
    def color(self) -> str:
        """Class of page.css."""
        return f"s{self.number % NUM_COLORS}"

    @property
    def dashes(self) -> str | None:
        """Of its stroke: neighbours differ without their colours, and the first 24 are all different."""
        return _DASHES[(self.number + self.number // 12) % len(_DASHES)] or None


class Chart(NamedTuple):
    """A metric of one run or of several settings.

    Attributes:
        metric: drawn upwards.
        lines: curves by the series they are of.
        start: of the untrained network, drawn as a line of its own; None for none.
        note: for people, below the chart.
    """

    metric: Metric
    lines: list[tuple[Series, list[Point]]]
    start: float | None = None
    note: str = ""


class Frame(NamedTuple):
    """From values to places of the drawing.

    Attributes:
        steps, values: least and greatest one.
    """

    steps: tuple[float, float]
    values: tuple[float, float]

    def x(self, step: float) -> float:
        """Of an optimizer step."""
        return _LEFT + (step - self.steps[0]) / (self.steps[1] - self.steps[0]) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Of a value."""
        share = (value - self.values[0]) / (self.values[1] - self.values[0])
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def figure(chart: Chart, index: int, *, last_step: float) -> Html:
    """The chart with its title and buttons.

    Args:
        chart: to draw.
        index: of the chart in the page's data.
        last_step: where the axis of steps ends, the same for all charts.
    """
    name, title = chart.metric.name, chart.metric.title
    heading = element(
        "figcaption",
        element("span", title, class_="title"),
        element("code", name),
        id=f"chart-{index}",
    )
    log = element("button", "log", type="button", class_="log js-only", aria_pressed="false", title="logarithmic scale")
    plot = element(
        "div",
        _drawing(chart, last_step),
        class_="plot",
        data_chart=index,
        role="group",
        aria_labelledby=f"chart-{index}",
    )
    head = element("div", heading, log, class_="chart-head")
    note = element("p", chart.note, class_="note") if chart.note else None
    return element("figure", head, plot, note, class_="chart card")


def as_data(chart: Chart, max_points: int) -> dict[str, object]:
    """The chart for page.js, with no more than so many points a curve."""
    return {
        "metric": chart.metric.name,
        "title": chart.metric.title,
        "label": summary(chart),
        "start": None if chart.start is None else _short(chart.start),
        "lines": [
            {
                "series": series.number,
                "points": [
                    [point.step, *map(_short, (point.value, point.low, point.high)), point.num_runs]
                    for point in thinned(points, max_points)
                ],
            }
            for series, points in chart.lines
        ],
    }


def summary(chart: Chart) -> str:
    """What the chart shows in words, for those who do not see it."""
    shown = [(series, points) for series, points in chart.lines if series.is_shown and points]
    ends = (
        f"{series.label + ': ' if len(chart.lines) > 1 else ''}{measured(chart.metric.name, points[0].value)} {ARROW} "
        f"{measured(chart.metric.name, points[-1].value)} at step {points[-1].step:,.0f}"
        for series, points in shown
    )
    return f"{chart.metric.title}. {'; '.join(ends)}"


def sample(series: Series) -> Html:
    """A short piece of a series' line."""
    line = element("line", x1=0, y1=6, x2=30, y2=6, class_=f"line {series.color}", stroke_dasharray=series.dashes)
    return element("svg", line, class_="sample", viewBox="0 0 30 12", width=30, height=12, aria_hidden="true")


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two values: multiples of 1, 2 or 5 times a power of ten, at most `most` + 1."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [k * step + 0.0 for k in range(first, math.floor(high / step + 1e-9) + 1)]


def extent(values: Sequence[float]) -> tuple[float, float]:
    """Where an axis begins and ends, with room around the values; a constant is drawn half-way up."""
    low, high = min(values), max(values)
    if low == high:  # or it would be drawn on a scale of rounding errors
        return (min(0.0, 2 * low), max(0.0, 2 * high)) if low else (-1.0, 1.0)
    room = 0.05 * (high - low)
    return low - room if low < 0 or low > room else 0.0, high + room


def _drawing(chart: Chart, last_step: float) -> Html:
    shown = [(series, thinned(points, _MAX_DRAWN)) for series, points in chart.lines if series.is_shown and points]
    values = [value for _, points in shown for point in points for value in (point.low, point.high)]
    values += [] if chart.start is None else [chart.start]
    frame = Frame((0.0, max(last_step, 1.0)), extent(values or [0.0]))
    parts = [*_axes(frame)]
    if chart.start is not None:
        y = frame.y(chart.start)
        parts.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="start"))
    for series, points in shown:
        parts += _curve(frame, series, points)
    box = f"0 0 {_WIDTH:g} {_HEIGHT:g}"
    return element("svg", join(parts), viewBox=box, role="img", aria_label=summary(chart))


def _axes(frame: Frame) -> Iterator[Html]:
    for value in ticks(*frame.values):
        y = frame.y(value)
        yield element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid")
        yield element("text", f"{value:.4g}", x=_LEFT - 6, y=y + 4, class_="tick end")
    for step in ticks(*frame.steps):
        yield element("text", _step(step), x=frame.x(step), y=_HEIGHT - _BOTTOM + 15, class_="tick middle")
    yield element("text", "optimizer step", x=_WIDTH - _RIGHT, y=_HEIGHT - 4, class_="tick end")


def _curve(frame: Frame, series: Series, points: list[Point]) -> Iterator[Html]:
    for piece in pieces(points):
        if len(piece) == 1:
            point = piece[0]
            x, y = frame.x(point.step), frame.y(point.value)
            if point.high > point.low:
                ends = {"y1": frame.y(point.low), "y2": frame.y(point.high)}
                yield element("line", x1=x, x2=x, class_=f"line {series.color}", **ends)
            yield element("circle", cx=x, cy=y, r=3, class_=f"dot {series.color}")
            continue
        if any(point.high > point.low for point in piece):
            edge = [(point.step, point.high) for point in piece] + [(p.step, p.low) for p in reversed(piece)]
            yield element("path", d=_path(frame, edge) + "Z", class_=f"band {series.color}")
        middle = _path(frame, [(point.step, point.value) for point in piece])
        yield element("path", d=middle, class_=f"line {series.color}", stroke_dasharray=series.dashes)
        if len(points) <= MAX_DOTS:
            for point in piece:
                place = {"cx": frame.x(point.step), "cy": frame.y(point.value)}
                yield element("circle", r=2.5, class_=f"dot {series.color}", **place)


def _path(frame: Frame, places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{frame.x(step):.1f} {frame.y(value):.1f}" for step, value in places)


def _step(step: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "K")):
        if step >= max(size, 1e5):
            return f"{step / size:g}{unit}"
    return f"{step:,g}"


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def runs_label(label: str, num_runs: int) -> str:
    """A series of several runs, with their number."""
    return f"{label} ({count(num_runs, 'run')})"
