"""Reading metrics.csv, without what writes it: imports no torch."""

from __future__ import annotations

import csv
import io
from pathlib import Path


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Rows of a metrics.csv by column, without empty cells and without a row cut short."""
    if not path.is_file():
        return []
    whole_lines, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    rows = csv.DictReader(io.StringIO(whole_lines))
    return [{name: float(value) for name, value in row.items() if value} for row in rows]
