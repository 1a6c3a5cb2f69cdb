"""What a page says of one run."""

from __future__ import annotations

from collections.abc import Sequence

from spt.config.tree import Plain
from spt.report.markup import Html, element, join
from spt.report.metrics import Metric, known_metrics
from spt.report.parts import Cell, Section, command, config, disclosure, log, notices, status, table
from spt.report.pictures import gallery, read_pictures
from spt.report.reading import flat, shown
from spt.report.run_folder import RunRecord, command_line
from spt.report.text import ARROW, count, difference, duration, measured


def run_header(run: RunRecord, problems: Sequence[str]) -> Html:
    """Name, status, what it is, and the numbers before and after.

    Args:
        run: to speak of.
        problems: files that cannot be read.
    """
    reason = element("p", run.reason, class_="reason") if run.reason else None
    return join(
        [
            element("p", run.folder.parent.name, class_="above"),
            element("h1", run.folder.name),
            element("p", status(run.status), element("span", _progress(run)), class_="state"),
            reason,
            element(
                "ul",
                *(element("li", f"{key} ", element("b", value)) for key, value in run.choices.items()),
                class_="choices",
            ),
            notices([*run.problems, *problems]),
            key_numbers(run),
        ]
    )


def key_numbers(run: RunRecord) -> Html:
    """What training has changed: a card for every accuracy and collapse metric, and for the loss."""
    latest, cards = run.latest, []
    for metric in known_metrics(latest):
        if metric.section not in ("accuracy", "collapse") and metric.name != "train/loss":
            continue
        before = run.at_start.get(metric.name) if metric.marks_start else _first(run, metric.name)
        cards.append((metric.section != "accuracy", _card(metric, before, latest[metric.name])))
    cards.sort(key=lambda pair: pair[0])  # accuracies first
    return element("dl", *(card for _, card in cards), class_="key-numbers")


def commands(run: RunRecord) -> Section:
    """What made the run, and what goes on with it."""
    parts = []
    if run.command is not None:
        parts.append(command(run.command, "The command that made this run"))
    else:
        parts.append(element("p", "This run was started from Python: there is no command."))
    if run.status in ("preempted", "killed", "failed") and run.checkpoints:
        parts.append(command(command_line([f"resume={run.folder}"]), "To go on from its newest checkpoint"))
    return Section("commands", "Command", join(parts))


def numbers(run: RunRecord) -> Section:
    """Every metric: first, last, least and greatest value."""
    rows: list[list[Cell | str]] = []
    for metric in known_metrics(run.latest):
        points = [(row["step"], row[metric.name]) for row in run.rows if metric.name in row]
        finite = [point for point in points if point[1] - point[1] == 0] or points
        least, greatest = (pick(finite, key=lambda point: point[1]) for pick in (min, max))
        shown_points = [points[0], points[-1], least, greatest]
        cells = [Cell(f"{measured(metric.name, value)}", value, is_number=True) for _, value in shown_points]
        at = f"{least[0]:.0f}, {greatest[0]:.0f}"
        rows.append([join([f"{metric.title} ", element("code", metric.name)]), *cells, Cell(at, is_number=True)])
    header = ["metric", "first", "latest", "least", "greatest", "steps of least, greatest"]
    return Section("numbers", "All metrics", table(f"Every metric up to step {run.steps:,}", header, rows))


def pictures(run: RunRecord) -> tuple[Section | None, list[str]]:
    """The run's pictures, and those that cannot be read."""
    found, problems = read_pictures(run.folder)
    section = Section("pictures", "Pictures", gallery(found, run.folder.name)) if found else None
    return section, problems


def evaluations(run: RunRecord) -> Section | None:
    """Results of the evaluations that were made of the network."""
    blocks = [_evaluation(name, content) for name, content in run.evaluations.items() if content]
    return Section("evaluations", "Evaluations", join(blocks)) if blocks else None


def checkpoints(run: RunRecord) -> Section | None:
    """Which checkpoints are kept."""
    if not run.checkpoints:
        return None
    rows: list[list[Cell | str]] = [
        [name, Cell(f"{step:,.0f}", step, is_number=True)] for name, step in run.checkpoints.items()
    ]
    return Section("checkpoints", "Checkpoints", table("Complete checkpoints, oldest first", ["file", "step"], rows))


def run_config(run: RunRecord) -> Section | None:
    """Every number that ran."""
    if not run.config:
        return None
    typed = [word.partition("=")[0].lstrip("+") for word in run.overrides or []]
    return Section("config", "Config", config(run.config, typed))


def log_tail(run: RunRecord) -> Section | None:
    """How the log ends."""
    if not run.log:
        return None
    return Section("log", "Log", log(run.log, f"The last {count(len(run.log), 'line')} of train.log"))


def _progress(run: RunRecord) -> str:
    epochs = run.config.get("trainer.max_epochs")
    latest = run.rows[-1].get("epoch") if run.rows else None
    of_epochs = ""
    if isinstance(epochs, int) and epochs > 0 and latest is not None and run.status != "completed":
        of_epochs = f" in epoch {latest + 1:.0f} of {epochs}"
    return f"{count(run.steps, 'step')}{of_epochs}, {duration(run.seconds)}"


def _card(metric: Metric, before: float | None, after: float) -> Html:
    change = difference(metric.name, before, after)
    was = f"{measured(metric.name, before)} {ARROW} " if before is not None else ""
    return element(
        "div",
        element("dt", metric.title),
        element("dd", element("span", was, class_="before"), element("b", measured(metric.name, after))),
        element("dd", f"{change} {'by training' if metric.marks_start else 'since the first row'}", class_="change")
        if change
        else None,
        class_="card",
    )


def _first(run: RunRecord, name: str) -> float | None:
    return next((row[name] for row in run.rows if name in row), None)


def _evaluation(name: str, content: dict[str, Plain]) -> Html:
    values = flat(content)
    lists = {key: value for key, value in values.items() if isinstance(value, list) and _are_records(value)}
    plain = [[key, element("code", shown(value))] for key, value in values.items() if key not in lists]
    is_setting = [row for row in plain if str(row[0]).startswith("config.")]
    results = [row for row in plain if row not in is_setting]
    tables = [table(name, ["result", "value"], results)]
    tables += [_records(f"{name}: {key}", value) for key, value in lists.items()]
    if is_setting:
        tables.append(disclosure("its config", table(f"Config of {name}", ["key", "value"], is_setting)))
    return join(tables)


def _are_records(node: list[Plain]) -> bool:
    return bool(node) and all(isinstance(entry, dict) for entry in node)


def _records(caption: str, records: list[Plain]) -> Html:
    entries = [entry for entry in records if isinstance(entry, dict)]
    keys = list(dict.fromkeys(key for entry in entries for key in entry))
    rows = [[_record_cell(entry.get(key)) for key in keys] for entry in entries]
    return table(caption, keys, rows, is_sortable=True)


def _record_cell(value: Plain) -> Cell:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return Cell(shown(value), float(str(value)) if is_number else None, is_number=is_number)
