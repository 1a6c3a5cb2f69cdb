"""summary.csv, summary.json and summary.md of a sweep, made anew from its folders whenever a job has ended."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from spt.reporting.atomic import write_text
from spt.sweep.plan import read_plan
from spt.sweep.rows import Row, key_metrics, read_rows
from spt.sweep.table import markdown, swept_keys


def write_sweep_summary(sweep: Path) -> list[Row]:
    """Writes the three files and gives their rows.

    Two jobs that end in the same moment, in two processes, may both do so; whatever comes next makes up for what the
    first of them did not see yet.
    """
    plan = read_plan(sweep)
    rows = read_rows(sweep, plan)
    columns = key_metrics(plan, rows)
    write_text(sweep / "summary.json", json.dumps({"jobs": [asdict(row) for row in rows]}, indent=2) + "\n")
    write_text(sweep / "summary.csv", _csv(rows, columns))
    write_text(sweep / "summary.md", markdown(rows, columns))
    return rows


def _csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    keys = list(dict.fromkeys([*swept_keys(rows), *(key for row in rows for key in row.values)]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*keys, "status", "reason", "seconds", *columns, "folder"])
    for row in rows:
        measured = [row.metrics.get(name) for name in columns]
        values = [row.values.get(key, "") for key in keys]
        writer.writerow([*values, row.status, row.reason or "", row.seconds, *measured, row.folder or ""])
    return text.getvalue()
