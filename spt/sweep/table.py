"""A sweep's results for people: a line for every job, mean and deviation over seeds, what did not complete last."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import NamedTuple

from spt.sweep.rows import Row

SEED = "seed"


class Grid(NamedTuple):
    """A table of text.

    Attributes:
        header: names of the columns.
        lines: as many cells each.
    """

    header: list[str]
    lines: list[list[str]]


def text(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """The tables for the screen, columns aligned.

    Args:
        rows: of all jobs.
        columns: metrics to show.
    """
    return "\n\n".join(_aligned(grid) for grid in _grids(rows, columns) if grid.lines)


def markdown(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """The same tables in Markdown, below a line that counts the jobs."""
    tables = [_markdown(grid) for grid in _grids(rows, columns) if grid.lines]
    return "\n\n".join([headline(rows), *tables]) + "\n"


def headline(rows: Sequence[Row]) -> str:
    """How many jobs there are, and how many of each ending: `8 jobs: 6 completed, 1 failed, 1 killed; all with ...`."""
    statuses = [row.status for row in rows]
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(sorted(statuses, key=_order)))
    same = " ".join(word for word in (rows[0].overrides if rows else []) if _is_everywhere(word, rows))
    lines = wrap(f"all with {same}", 120, break_long_words=False, break_on_hyphens=False) if same else []
    return "\n".join([f"{len(rows)} job{'s' * (len(rows) != 1)}: {counts}", *lines])


def duration(seconds: float) -> str:
    """For people: 24 s, 3 min 20 s, 5 h 7 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _grids(rows: Sequence[Row], columns: Sequence[str]) -> tuple[Grid, Grid]:
    keys = swept_keys(rows)
    completed = Grid([*keys, *columns, "time", "folder"], [])
    for group in _settings(row for row in rows if row.status == "completed"):
        completed.lines.extend(_line(row, keys, columns) for row in group)
        if len(group) > 1:
            completed.lines.append(_mean(group, keys, columns))
    others = sorted((row for row in rows if row.status != "completed"), key=lambda row: _order(row.status))
    cells = [[*_values(row, keys), row.status, row.reason or "", _folder(row)] for row in others]
    return completed, Grid([*keys, "status", "reason", "folder"], cells)


def swept_keys(rows: Sequence[Row]) -> list[str]:
    """Keys of overrides in which the jobs differ, in the order in which they were typed."""
    keys = dict.fromkeys(key for row in rows for key in row.values)
    return [key for key in keys if len({row.values.get(key) for row in rows}) > 1]


def _settings(rows: Iterable[Row]) -> list[list[Row]]:
    """Jobs that differ in their seed alone, together; in the order of the first of each."""
    groups: dict[frozenset[str], list[Row]] = {}
    for row in rows:
        setting = frozenset(word for word in row.overrides if not word.startswith(f"{SEED}="))
        groups.setdefault(setting, []).append(row)
    return list(groups.values())


def _line(row: Row, keys: Sequence[str], columns: Sequence[str]) -> list[str]:
    metrics = [_number(row.metrics.get(name)) for name in columns]
    return [*_values(row, keys), *metrics, duration(row.seconds), _folder(row)]


def _mean(group: Sequence[Row], keys: Sequence[str], columns: Sequence[str]) -> list[str]:
    values = [f"mean of {len(group)}" if key == SEED else group[0].values.get(key, "") for key in keys]
    spread = [_mean_and_deviation([row.metrics.get(name) for row in group]) for name in columns]
    return [*values, *spread, duration(statistics.mean(row.seconds for row in group)), ""]


def _mean_and_deviation(values: Sequence[float | None]) -> str:
    """Of the values that there are; the deviation is that of a sample (n - 1)."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return _number(known[0]) if known else ""
    deviation = statistics.stdev(known)
    decimals = 3 if deviation == 0 else max(0, 1 - math.floor(math.log10(deviation)))
    return f"{statistics.mean(known):.{decimals}f} +- {deviation:.{decimals}f}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if 1e-3 <= abs(value) < 10 else f"{value:.4g}"


def _values(row: Row, keys: Sequence[str]) -> list[str]:
    return [shortened(row.values.get(key, "")) for key in keys]


def shortened(value: str) -> str:
    """A number that a search has drawn, to four digits; anything else as it is."""
    try:
        return f"{float(value):.4g}" if len(value) > 8 else value
    except ValueError:
        return value


def _folder(row: Row) -> str:
    return "" if row.folder is None else row.folder.rpartition("/")[2]


def _is_everywhere(word: str, rows: Sequence[Row]) -> bool:
    return len(rows) > 1 and all(word in row.overrides for row in rows)


def _order(status: str) -> int:
    return ("completed", "running", "waiting", "preempted", "killed", "failed", "refused").index(status)


def _aligned(grid: Grid) -> str:
    table = [grid.header, *grid.lines]
    widths = [max(len(line[column]) for line in table) for column in range(len(grid.header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table
    )


def _markdown(grid: Grid) -> str:
    lines = [grid.header, ["---"] * len(grid.header), *grid.lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
