"""All charts of a page, in the parts that readers look for."""

from __future__ import annotations

from collections.abc import Sequence

from spt.report.chart import MAX_DOTS, Chart, Series, as_data, figure, sample
from spt.report.curves import Point, band, curve, num_not_finite
from spt.report.markup import Html, element, join
from spt.report.metrics import SECTIONS, Metric, known_metrics
from spt.report.parts import Section
from spt.report.run_folder import RunRecord
from spt.report.text import count

Groups = Sequence[tuple[Series, Sequence[RunRecord]]]
"""Runs by the series that stands for them."""


class Charts:
    """The charts of a page.

    Args:
        groups: a run alone, or the runs of every setting.

    Attributes:
        all: in the order of the page.
        last_step: of all runs.
        max_points: of a curve, so that a page of many settings does not grow beyond what a browser likes to read.
    """

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.max_points = max(400, min(2000, 8000 // max(1, len(groups))))
        runs = [run for _, group in groups for run in group]
        self.last_step = max((run.steps for run in runs), default=0)
        names = (name for run in runs for row in run.rows for name in row)
        charts = [_chart(metric, groups) for metric in known_metrics(names)]
        self.all = [chart for section in SECTIONS for chart in charts if chart.metric.section == section]

    def sections(self) -> list[Section]:
        """A part of the page for every kind of metric that was measured."""
        found = []
        for name, title in SECTIONS.items():
            figures = [
                figure(chart, i, last_step=self.last_step)
                for i, chart in enumerate(self.all)
                if chart.metric.section == name
            ]
            if figures:
                found.append(Section(name, title, element("div", *figures, class_="charts")))
        if len(self.groups) > 1:  # the first has the legend
            found[1:] = [part._replace(body=join([_key(self.groups), part.body])) for part in found[1:]]
        if found:
            found[0] = found[0]._replace(
                body=join([_how_to_read(self.all, self.groups, self.max_points), found[0].body])
            )
        return found

    def as_data(self) -> dict[str, object]:
        """The same for page.js."""
        return {
            "last_step": self.last_step,
            "max_dots": MAX_DOTS,
            "charts": [as_data(chart, self.max_points) for chart in self.all],
            "series": [
                {
                    "index": series.number, "label": series.label, "color": series.color, "dashes": series.dashes,
                    "shown": series.is_shown,
                }
                for series, _ in self.groups
            ],
        }  # fmt: skip


def _chart(metric: Metric, groups: Groups) -> Chart:
    lines: list[tuple[Series, list[Point]]] = []
    for series, runs in groups:
        curves = [curve(run.rows, metric.name) for run in runs]
        lines.append((series, curves[0] if len(curves) == 1 else band(curves)))
    runs = [run for _, group in groups for run in group]
    start = runs[0].at_start.get(metric.name) if len(runs) == 1 and metric.marks_start else None
    lost = sum(num_not_finite(run.rows, metric.name) for run in runs)
    note = f"{count(lost, 'value')} not drawn: infinite or not a number." if lost else ""
    has_start = start is not None and start - start == 0  # a number that can be drawn
    return Chart(metric, lines, start if has_start else None, note)


def _key(groups: Groups) -> Html:
    """Which line is whose, once more where the legend is far away."""
    items = (
        element("li", sample(series), " ", series.label, data_series=series.number, hidden=not series.is_shown)
        for series, _ in groups
    )
    return element("ul", *items, class_="key")


def _how_to_read(charts: Sequence[Chart], groups: Groups, max_points: int) -> Html:
    is_long = any(len(points) > max_points for chart in charts for _, points in chart.lines)
    facts = ["Grey dashes: the untrained network."] if any(chart.start is not None for chart in charts) else []
    if any(len(runs) > 1 for _, runs in groups):
        facts.append(
            "Line: mean over runs that differ in their seed alone; band: from the least to the greatest of them. "
            "A line is interrupted where the number of runs changes."
        )
    if is_long:
        facts.append(f"Of long curves at most {max_points} points are drawn, extremes among them.")
    # a finger that is drawn over a chart scrolls the page
    hints = [
        element("span", "Point at a chart or touch it for its values.", class_="note"),
        element("span", "Drag over it to zoom all of them, double-click to end that.", class_="note mouse"),
    ]
    reset = element("button", "Reset zoom", type="button", class_="reset-zoom mouse", disabled=True)
    return join(
        [
            element("p", " ".join(facts), class_="note") if facts else None,
            element("div", *hints, reset, class_="tools js-only"),
        ]
    )
