"""metrics.csv: every logged metric, in a file that a kill cannot spoil."""

from __future__ import annotations

import csv
import io
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import Logger
from torch import Tensor

from spt.reporting.atomic import write_text
from spt.reporting.metric_rows import read_metrics

_STEP = "step"


class MetricsFile(Logger):
    """Writes <folder>/metrics.csv: one row a step, one column a metric, empty where nothing was measured.

    `step` counts the optimizer steps that made the weights a row speaks of: the loss in row k is that of the k-th
    step's batch before the step, an accuracy in row k that of the weights after k steps. A row is on disk as soon as
    it is logged; a kill loses the last row at most. In a folder that has a file already, a row of an earlier step
    replaces all that came after it.

    Args:
        folder: the run folder.

    Attributes:
        latest: last value of every metric, by name.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.path = Path(folder) / "metrics.csv"
        self.latest: dict[str, float] = {}
        self._columns: list[str] = []
        self._last: dict[str, float] = {}
        self._last_offset = 0  # bytes before the last row
        self._is_open = False

    @property
    def name(self) -> str:
        """Of the kind of logger."""
        return "metrics"

    @property
    def version(self) -> str:
        """None is needed: the run folder is the version."""
        return ""

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, object] | Namespace) -> None:
        """Does nothing: the run folder holds the config."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float | Tensor], step: int | None = None) -> None:
        """Adds values to the row of `step`."""
        assert step is not None, "Lightning names the step of every metric"
        self._open()
        if step < self._last.get(_STEP, step):
            self.drop_after(step)
        values = {name: float(value) for name, value in metrics.items() if name != _STEP}
        if self._last.get(_STEP) != step:
            self._last, self._last_offset = {_STEP: float(step)}, self._size()
        self._last.update(values)
        self.latest.update(values)
        new = [name for name in self._last if name not in self._columns]
        if new:
            self._columns += new
            self._rewrite([row for row in read_metrics(self.path) if row[_STEP] < step])
        self._write_last()

    @rank_zero_only
    def drop_after(self, step: int) -> None:
        """Removes rows past `step`: a run that goes on from there writes them again."""
        self._open()
        rows = [row for row in read_metrics(self.path) if row[_STEP] <= step]
        self.latest = {name: value for row in rows for name, value in row.items() if name != _STEP}
        self._last = rows.pop() if rows else {}
        self._rewrite(rows)
        if self._last:
            self._write_last()

    def _open(self) -> None:
        """Goes on with the file that is there, a row cut short left out."""
        if self._is_open:
            return
        self._is_open = True
        rows = read_metrics(self.path)
        if not rows:
            return
        self._columns = list(dict.fromkeys(name for row in rows for name in row))
        self.latest = {name: value for row in rows for name, value in row.items() if name != _STEP}
        self._last = rows.pop()
        self._rewrite(rows)
        self._write_last()

    def _rewrite(self, rows: list[dict[str, float]]) -> None:
        """The header and all rows but the last, in one move."""
        write_text(self.path, "".join([_line(self._columns), *(self._row(row) for row in rows)]))
        self._last_offset = self._size()

    def _write_last(self) -> None:
        with self.path.open("r+", encoding="utf-8", newline="") as file:
            file.seek(self._last_offset)
            file.truncate()
            file.write(self._row(self._last))

    def _row(self, row: dict[str, float]) -> str:
        return _line([f"{row[name]:.9g}" if name in row else "" for name in self._columns])

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0


def _line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
