"""plots/curves.png: metrics.csv as small multiples."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spt.reporting.metrics_file import read_metrics
from spt.reporting.picture import save

_COLORS = ("#1f5fa8", "#c8553d", "#3a7d44")
_NUM_COLUMNS = 4
_PANEL_INCHES = (3.4, 2.5)


class Panel(NamedTuple):
    """One small plot.

    Attributes:
        title: what a reader looks for.
        metrics: what is drawn in it, on one scale.
        marks_start: the untrained network's value is drawn as a dashed line.
    """

    title: str
    metrics: tuple[str, ...]
    marks_start: bool = False


_PANELS = (
    Panel("loss", ("train/loss",)),
    Panel("accuracy (dashed: untrained)", ("val/knn_top1", "val/linear_top1"), marks_start=True),
    Panel("embedding std (dashed: untrained)", ("collapse/embedding_std",), marks_start=True),
    Panel("RankMe (dashed: untrained)", ("collapse/rankme",), marks_start=True),
    Panel("entropy of the teacher's targets", ("collapse/teacher_entropy",)),
    Panel("learning rate", ("train/lr",)),
    Panel("weight decay", ("train/weight_decay",)),
    Panel("teacher momentum", ("train/teacher_momentum",)),
    Panel("teacher temperature", ("train/teacher_temperature",)),
    Panel("gradient norm", ("train/grad_norm",)),
    Panel("images per second", ("train/images_per_second",)),
    Panel("share of time waiting for data", ("train/data_wait",)),
    Panel("peak memory in GiB", ("system/memory_gib",)),
)


def plot_curves(folder: str | Path) -> Path | None:
    """Draws <folder>/metrics.csv into <folder>/plots/curves.png; None when no metric has two values to draw.

    Known metrics come first and in fixed places; any other gets a panel of its own.
    """
    rows = read_metrics(Path(folder) / "metrics.csv")
    drawable = {name for name in _names(rows) if len(_series(rows, name)[0]) > 1}
    known = {name for panel in _PANELS for name in panel.metrics}
    others = [Panel(name, (name,)) for name in _names(rows) if "/" in name and name not in known]
    panels = [panel for panel in (*_PANELS, *others) if drawable.intersection(panel.metrics)]
    if not panels:
        return None
    num_columns = min(_NUM_COLUMNS, len(panels))
    num_rows = math.ceil(len(panels) / num_columns)
    size = (num_columns * _PANEL_INCHES[0], num_rows * _PANEL_INCHES[1])
    figure = Figure(figsize=size, dpi=110, layout="constrained")
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(num_rows, num_columns, i + 1)
        _draw(axes, panel, rows)
        axes.set_xlim(0, rows[-1]["step"] * 1.03)  # one scale for all, so that events line up
        if i + num_columns >= len(panels):
            axes.set_xlabel("optimizer step", fontsize=8)
    path = Path(folder) / "plots" / "curves.png"
    save(figure, path)
    return path


def _draw(axes: Axes, panel: Panel, rows: list[dict[str, float]]) -> None:
    axes.set_title(panel.title, fontsize=9, loc="left")
    for name, color in zip(panel.metrics, _COLORS, strict=False):
        steps, values = _series(rows, name)
        if not steps:
            continue
        marker = "o" if len(steps) <= 30 else None
        axes.plot(steps, values, color=color, linewidth=1.3, marker=marker, markersize=2.5, label=name.split("/")[-1])
        if min(values) == max(values) != 0:
            # or a constant would be drawn on a scale of rounding errors
            axes.set_ylim(min(0, 2 * values[0]), max(0, 2 * values[0]))
        if panel.marks_start and steps[0] == 0:
            axes.axhline(values[0], color=color, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.7)
    if len(panel.metrics) > 1:
        axes.legend(fontsize=7, frameon=False, loc="best")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=7)


def _names(rows: list[dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _series(rows: list[dict[str, float]], name: str) -> tuple[list[float], list[float]]:
    """Steps and values of the rows in which a metric is there and finite."""
    points = [(row["step"], row[name]) for row in rows if math.isfinite(row.get(name, math.nan))]
    return [step for step, _ in points], [value for _, value in points]
