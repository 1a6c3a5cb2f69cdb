"""The page as a whole: one file that needs no network and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from string import Template
from typing import NamedTuple

from spt.config.errors import ConfigError
from spt.report import run_sections, sweep_sections
from spt.report.chart import Series
from spt.report.charts import Charts
from spt.report.markup import Html, element, join, json_for_script
from spt.report.parts import Section
from spt.report.run_folder import RunRecord, is_run, read_run
from spt.report.sweep_folder import SweepRecord, is_sweep, read_sweep
from spt.reporting.atomic import write_text

FILE = "report.html"


class Page(NamedTuple):
    """What a page says.

    Attributes:
        title: of the window.
        header: above all sections.
        sections: in order.
        charts: that are in them.
    """

    title: str
    header: Html
    sections: list[Section]
    charts: Charts


def write_report(folder: Path, output: Path | None, *, now: float) -> Path:
    """Writes the report of a run or sweep and gives its path.

    Args:
        folder: of the run or sweep; any folder of runs is reported as a sweep.
        output: the file; None for report.html in the folder.
        now: seconds since 1970.

    Raises:
        ConfigError: the folder is neither.
    """
    path = output or folder / FILE
    write_text(path, render(read_page(folder, now=now), now=now))
    return path


def read_page(folder: Path, *, now: float) -> Page:
    """The page of a folder.

    Raises:
        ConfigError: there is no run in it.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder.\n    try: python scripts/report.py RUN_OR_SWEEP_FOLDER")
    if is_run(folder):
        return run_page(read_run(folder, now=now))
    if is_sweep(folder):
        return sweep_page(read_sweep(folder, now=now))
    inner = sorted(path.name for path in folder.iterdir() if path.is_dir())
    inside = f"\n    in it: {', '.join(inner[:5])}{' and others' if len(inner) > 5 else ''}" if inner else ""
    example = folder / inner[0] if inner else "RUN_OR_SWEEP_FOLDER"
    raise ConfigError(
        f"{folder} is the folder of no run and no sweep: .hydra, metrics.csv and multirun.yaml are all missing, and no "
        f"run is in it.{inside}\n    try: python scripts/report.py {example}"
    )


def run_page(run: RunRecord) -> Page:
    """The page of a run."""
    charts = Charts([(Series(0, run.folder.name), [run])])
    pictures, problems = run_sections.pictures(run)
    before = [run_sections.commands(run), *charts.sections()]
    after = [pictures, run_sections.evaluations(run), run_sections.numbers(run) if run.rows else None]
    after += [run_sections.checkpoints(run), run_sections.run_config(run), run_sections.log_tail(run)]
    sections = [section for section in (*before, *after) if section is not None]
    return Page(f"{run.folder.name}: {run.status}", run_sections.run_header(run, problems), sections, charts)


def sweep_page(sweep: SweepRecord) -> Page:
    """The page of a sweep."""
    metrics = sweep_sections.table_metrics(sweep)
    settings = sweep_sections.ranked(sweep.settings, metrics)
    measured = [setting for setting in settings if setting.runs]
    groups = [
        (Series(i, setting.label, is_shown=i < sweep_sections.MAX_SHOWN), setting.runs)
        for i, setting in enumerate(measured)
    ]
    charts = Charts(groups)
    curves = charts.sections()
    if curves:
        curves[0] = curves[0]._replace(body=join([sweep_sections.legend(groups), curves[0].body]))
    keys = [key for key in sweep.swept_keys if key != "seed"]
    pictures, problems = sweep_sections.pictures(settings)
    found = [sweep_sections.results(settings, keys, metrics), sweep_sections.incomplete(sweep), *curves]
    found += [
        sweep_sections.jobs(sweep, metrics),
        sweep_sections.evaluations(sweep),
        sweep_sections.differences(settings),
        pictures,
    ]
    found += [sweep_sections.commands(sweep), sweep_sections.shared_config(settings)]
    sections = [section for section in found if section is not None]
    header = sweep_sections.sweep_header(sweep, settings, metrics, problems)
    return Page(f"{sweep.folder.name}: sweep of {len(sweep.jobs)} jobs", header, sections, charts)


def render(page: Page, *, now: float) -> str:
    """The page as HTML.

    Its policy for the browser names the hashes of its own script and style: nothing else runs or is loaded, whatever
    stood in the files that it was made from.
    """
    template, style, script = (_asset(name) for name in ("page.html", "page.css", "page.js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(template).substitute(
        policy=policy,
        title=join([page.title]),
        style=style,
        script=script,
        header=page.header,
        nav=_nav(page.sections),
        main=join(_section(section) for section in page.sections),
        footer=_footer(now),
        data=json_for_script(page.charts.as_data()),
    )


def _nav(sections: Sequence[Section]) -> Html:
    links = (element("li", element("a", section.title, href=f"#{section.id}")) for section in sections)
    return element("ul", *links)


def _section(section: Section) -> Html:
    heading = element("h2", section.title, id=f"{section.id}-heading")
    return element("section", heading, section.body, id=section.id, aria_labelledby=f"{section.id}-heading")


def _footer(now: float) -> Html:
    time = datetime.fromtimestamp(now).astimezone()
    words = f"Made on {time:%Y-%m-%d} at {time:%H:%M:%S %Z} by scripts/report.py."
    return element("p", words)


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
