"""What a page says of a sweep: its jobs, the settings they try, and what came of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from spt.config.tree import Plain
from spt.report.chart import Series, runs_label, sample
from spt.report.markup import Html, breakable, element, join
from spt.report.metrics import known_metrics, ranking_metric
from spt.report.parts import Cell, Section, command, config, disclosure, log, notices, search, status, table
from spt.report.pictures import gallery, read_pictures
from spt.report.reading import shown
from spt.report.run_folder import RunRecord
from spt.report.sweep_folder import Job, Setting, SweepRecord
from spt.report.text import ARROW, DASH, ELLIPSIS, count, duration, measured, number, spread
from spt.sweep.table import SEED

MAX_SHOWN = 8
"""Settings that the charts show until the reader asks for others."""
_MAX_PICTURED = 12
_MAX_NAMED = 8
_ORDER = ("completed", "running", "waiting", "preempted", "killed", "failed", "refused")


def table_metrics(sweep: SweepRecord) -> list[str]:
    """Metrics of the tables: those asked for that were measured; all accuracies where nothing was asked for."""
    found = {name for job in sweep.jobs if job.run is not None for name in job.run.latest}
    asked = [name for name in sweep.metrics if name in found]
    return asked or [metric.name for metric in known_metrics(sorted(found)) if metric.section == "accuracy"]


def ranked(settings: Sequence[Setting], metrics: Sequence[str]) -> list[Setting]:
    """The settings, best first by the accuracy that runs are compared by.

    Those of which no run is complete follow, and those in which it was not measured come last.
    """
    name = ranking_metric(metrics)
    if name is None:
        return list(settings)

    def rank(setting: Setting) -> tuple[bool, bool, float]:
        values = _values(setting, name)
        return not values, not setting.is_measured, -statistics.fmean(values) if values else 0.0

    return sorted(settings, key=rank)


def sweep_header(
    sweep: SweepRecord, settings: Sequence[Setting], metrics: Sequence[str], problems: Sequence[str]
) -> Html:
    """Name, how many jobs ended how, what was swept, and the best setting."""
    names = [job.status for job in sweep.jobs]
    counts = [element("li", f"{names.count(name)} ", status(name)) for name in _ORDER if name in names]
    same = [word for word in (sweep.jobs[0].overrides if sweep.jobs else []) if _is_everywhere(word, sweep.jobs)]
    swept = [(key, _some(job.values.get(key, DASH) for job in sweep.jobs)) for key in sweep.swept_keys]
    return join(
        [
            element("p", sweep.folder.parent.name, class_="above"),
            element("h1", sweep.folder.name),
            element("ul", element("li", count(len(sweep.jobs), "job")), *counts, class_="state"),
            element(
                "ul",
                *(element("li", f"{key} ", element("b", values)) for key, values in swept),
                class_="choices",
            ),
            element("p", "All with ", element("code", " ".join(same)), class_="note") if same else None,
            notices([*sweep.problems, *problems]),
            _best(settings, metrics),
        ]
    )


def commands(sweep: SweepRecord) -> Section:
    """What made the sweep, and what makes each of its runs alone."""
    whole = (
        command(sweep.command, "The command that made this sweep; typed again, it goes on")
        if sweep.command is not None
        else element("p", "These runs were started one by one.")
    )
    single = [command(job.run.command, f"Run {job.name}") for job in sweep.jobs if job.run and job.run.command]
    alone = disclosure(f"The command of every run alone ({len(single)})", *single) if single else None
    return Section("commands", "Command", join([whole, alone]))


def results(settings: Sequence[Setting], keys: Sequence[str], metrics: Sequence[str]) -> Section:
    """Mean and deviation of every setting over its seeds."""
    best = settings[0] if ranking_metric(metrics) and settings and _values(settings[0], metrics[0]) else None
    rows: list[list[Cell | str]] = []
    for setting in settings:
        names = [setting.values.get(key, DASH) for key in keys] or [setting.label]
        names[0] = element("span", names[0], class_="best") if setting is best else names[0]
        cells = [
            Cell(spread(name, values), statistics.fmean(values) if values else None, is_number=True)
            for name, values in ((name, _values(setting, name)) for name in metrics)
        ]
        times = [job.seconds for job in setting.jobs if job.seconds is not None]
        mean_time = statistics.fmean(times) if times else None
        rows.append([*names, _how_many(setting), *cells, Cell(duration(mean_time), mean_time, is_number=True)])
    caption = "Mean \u00b1 standard deviation (n \u2212 1) of the last values over runs that differ in their seed alone"
    header = [*(keys or ["setting"]), "runs", *metrics, "mean time"]
    return Section("results", "Results", table(caption, header, rows, is_sortable=True))


def jobs(sweep: SweepRecord, metrics: Sequence[str]) -> Section:
    """Every job with its metrics before and after."""
    keys = sweep.swept_keys
    rows: list[list[Cell | str]] = []
    for job in sweep.jobs:
        run = job.run
        start, latest = (run.at_start, run.latest) if run is not None else ({}, {})
        cells = []
        for name in metrics:
            was = f"{measured(name, start[name])} {ARROW} " if name in start and name in latest else ""
            cells.append(Cell(f"{was}{measured(name, latest.get(name))}", latest.get(name), is_number=True))
        steps = Cell(f"{run.steps:,}", run.steps, is_number=True) if run is not None else Cell(DASH, is_number=True)
        time = Cell(duration(job.seconds), job.seconds, is_number=True)
        values = [job.values.get(key, DASH) for key in keys]
        rows.append([job.name or DASH, *values, status(job.status), *cells, steps, time])
    header = ["job", *keys, "status", *metrics, "steps", "time"]
    caption = "Every job, in the order in which it was asked for. Metrics: untrained \u2192 latest"
    return Section("jobs", "Jobs", table(caption, header, rows, is_sortable=True))


def evaluations(sweep: SweepRecord) -> Section | None:
    """The figures of evaluations that were made of the networks afterwards, a column for each."""
    measured = [(job, _figures(job.run)) for job in sweep.jobs if job.run is not None]
    names = sorted({name for _, figures in measured for name in figures})
    if not names:
        return None
    keys = sweep.swept_keys
    rows: list[list[Cell | str]] = []
    for job, figures in measured:
        cells = [Cell(number(figures.get(name)), figures.get(name), is_number=True) for name in names]
        rows.append([job.name, *(job.values.get(key, DASH) for key in keys), *cells])
    caption = "Evaluations of the networks after training"
    return Section("evaluations", "Evaluations", table(caption, ["job", *keys, *names], rows, is_sortable=True))


def incomplete(sweep: SweepRecord) -> Section | None:
    """Jobs that did not complete, why, and how their logs end."""
    left = [job for job in sweep.jobs if job.status in ("preempted", "killed", "failed", "refused")]
    if not left:
        return None
    keys = sweep.swept_keys
    rows: list[list[Cell | str]] = []
    for job in left:
        typed = " ".join(f"{key}={job.values[key]}" for key in keys if key in job.values)
        rows.append([job.name or DASH, status(job.status), _lines(job.reason), typed or " ".join(job.overrides)])
    body: list[Html | None] = [table("Jobs that did not complete, and why", ["job", "status", "reason", "typed"], rows)]
    for job in left:
        if job.run is not None and job.run.log:
            lines = job.run.log[-25:]
            body.append(disclosure(f"How the log of job {job.name} ends", log(lines, f"Log of job {job.name}")))
    return Section("incomplete", "Not completed", join(body))


def legend(groups: Sequence[tuple[Series, Sequence[RunRecord]]]) -> Html:
    """Which line is whose, with a box to draw it or not."""
    items = []
    for series, runs in groups:
        box = element("input", type="checkbox", data_series=series.number, checked=series.is_shown)
        text = element("span", runs_label(series.label, len(runs)))
        items.append(element("li", element("label", box, sample(series), text)))
    buttons = [element("button", f"Show {word}", type="button", class_=f"show-{word}") for word in ("all", "none")]
    hidden = sum(not series.is_shown for series, _ in groups)
    note = element("p", f"The best {MAX_SHOWN} are drawn; tick others.", class_="note js-only") if hidden else None
    return element(
        "fieldset",
        element("legend", "Settings"),
        element("ul", *items),
        note,
        element("div", *buttons, class_="tools js-only") if len(groups) > 2 else None,
        class_="legend",
    )


def differences(settings: Sequence[Setting]) -> Section | None:
    """Keys of the config in which settings differ, and nothing else."""
    configs = [(setting.label, _config(setting)) for setting in settings]
    configs = [(label, values) for label, values in configs if values]
    keys = dict.fromkeys(key for _, values in configs for key in values)
    differing = [key for key in keys if len({values.get(key) for _, values in configs}) > 1]
    if not differing:
        return None
    # keys that all have come first: the others are there for one method or backbone alone
    differing.sort(key=lambda key: not all(key in values for _, values in configs))
    rows = [[breakable(key), *(element("code", values.get(key, DASH)) for _, values in configs)] for key in differing]
    caption = f"{count(len(differing), 'key')} of {len(keys)} that differ between settings; {DASH}: no such key"
    whole = table(caption, ["key", *(label for label, _ in configs)], rows, is_long=len(rows) > 20)
    return Section("differences", "Config differences", element("div", search("Search"), whole, data_search=True))


def pictures(settings: Sequence[Setting]) -> tuple[Section | None, list[str]]:
    """The pictures of one run of every setting, and those that cannot be read."""
    blocks: list[Html] = []
    problems: list[str] = []
    for setting in settings[:_MAX_PICTURED]:
        for run in setting.runs[:1]:
            found, unread = read_pictures(run.folder)
            problems += [f"{run.folder.name}/{line}" for line in unread]
            if found:
                title = f"{setting.label}, run {run.folder.name}"
                blocks.append(disclosure(title, gallery(found, title), is_open=len(blocks) < 2))
    note = element("p", "Of the first run of every setting; scripts/report.py shows those of any run.", class_="note")
    return (Section("pictures", "Pictures", join([note, *blocks])) if blocks else None), problems


def shared_config(settings: Sequence[Setting]) -> Section | None:
    """What all runs have in common."""
    configs = [run.config for setting in settings for run in setting.runs if run.config]
    if not configs:
        return None
    first: dict[str, Plain] = configs[0]
    same = {key: value for key, value in first.items() if all(key in c and c[key] == value for c in configs)}
    return Section("config", "Shared config", config(same, []))


def _best(settings: Sequence[Setting], metrics: Sequence[str]) -> Html | None:
    name = ranking_metric(metrics)
    if name is None:
        return None
    compared = [setting for setting in settings if setting.is_measured and _values(setting, name)]
    ends = [("Best", compared[0]), ("Worst", compared[-1])] if len(compared) > 1 else [("", one) for one in compared]
    cards = []
    for title, setting in ends:
        values = _values(setting, name)
        label = element("dt", f"{title} {name}".strip())
        of = element("dd", f"{setting.label}, {_how_many(setting)}", class_="change")
        cards.append(element("div", label, element("dd", element("b", spread(name, values))), of, class_="card"))
    return element("dl", *cards, class_="key-numbers") if cards else None


def _values(setting: Setting, name: str) -> list[float]:
    """Last values of the completed runs; of all its runs where none is complete."""
    done = [job.run for job in setting.jobs if job.status == "completed" and job.run is not None]
    latest = [run.latest for run in done or setting.runs]
    return [values[name] for values in latest if name in values]


def _how_many(setting: Setting) -> str:
    done = sum(job.status == "completed" for job in setting.jobs)
    whole = count(len(setting.jobs), "run")
    if done == len(setting.jobs):
        return whole
    return f"{done} of {whole} completed" + ("" if done else ", values so far" if setting.runs else "")


def _figures(run: RunRecord) -> dict[str, float]:
    """What each evaluation of a run's network has found, by the name of its file."""
    found = ((Path(name).stem, content.get("value")) for name, content in run.evaluations.items())
    return {name: float(value) for name, value in found if isinstance(value, (int, float))}


def _config(setting: Setting) -> dict[str, str]:
    """Values by key; where seeds differ in a key, all of them."""
    configs = [job.run.config for job in setting.jobs if job.run is not None and job.run.config]
    keys = dict.fromkeys(key for values in configs for key in values if key != SEED)
    return {key: ", ".join(dict.fromkeys(shown(values[key]) for values in configs if key in values)) for key in keys}


def _some(values: Iterable[str]) -> str:
    """The different ones, and of many the number."""
    different = list(dict.fromkeys(values))
    rest = f"{ELLIPSIS} ({len(different)} values)" if len(different) > _MAX_NAMED else ""
    return ", ".join(different[:_MAX_NAMED]) + rest


def _lines(reason: str | None) -> Html:
    return element("span", reason or DASH, class_="lines")


def _is_everywhere(word: str, jobs: Sequence[Job]) -> bool:
    return len(jobs) > 1 and all(word in job.overrides for job in jobs)
