"""Pieces that pages are made of: tables, commands, statuses, configs, logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spt.config.tree import Plain
from spt.report.markup import Html, breakable, element, join
from spt.report.reading import shown
from spt.report.text import printable

_SIGNS = {
    "completed": "\u2713", "running": "\u25b6", "waiting": "\u25cb", "preempted": "\u23f8", "killed": "\u2717",
    "failed": "\u2717", "refused": "\u2298",
}  # fmt: skip


class Section(NamedTuple):
    """A part of a page.

    Attributes:
        id: of its place.
        title: its heading.
        body: the rest.
    """

    id: str
    title: str
    body: Html


class Cell(NamedTuple):
    """A cell of a table that can be sorted.

    Attributes:
        content: what it shows.
        value: what it is sorted by; None for what it shows, and last where it shows nothing.
        is_number: written to the right.
    """

    content: str
    value: float | None = None
    is_number: bool = False


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Cell | str]],
    *,
    is_sortable: bool = False,
    is_long: bool = False,
) -> Html:
    """A table in a box of its own that scrolls sideways where the screen is narrow.

    Args:
        caption: what it holds.
        header: names of the columns.
        rows: as many cells each; the first names the row.
        is_sortable: a column's name is a button.
        is_long: the box scrolls down too, below the names of the columns.
    """
    numeric = {i for row in rows for i, cell in enumerate(row) if isinstance(cell, Cell) and cell.is_number}
    heads = [
        element(
            "th",
            element("button", name, type="button", class_="sort") if is_sortable else name,
            scope="col",
            class_="number" if i in numeric else None,
        )
        for i, name in enumerate(header)
    ]
    body = [element("tr", *(_cell(cell, is_name=i == 0) for i, cell in enumerate(row))) for row in rows]
    whole = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        class_="sortable" if is_sortable else None,
    )
    return element(
        "div", whole, class_="scroll long" if is_long else "scroll", tabindex=0, role="group", aria_label=caption
    )


def status(name: str) -> Html:
    """A status by sign, word and colour."""
    return element("span", element("span", _SIGNS[name], aria_hidden="true"), f" {name}", class_=f"status {name}")


def command(line: str, what: str) -> Html:
    """A line for a shell with a button that copies it.

    Args:
        line: the command.
        what: it does.
    """
    button = element("button", "Copy", type="button", class_="copy js-only", aria_label=f"Copy: {what}")
    code = element("pre", element("code", line))
    return element("div", element("p", what, class_="what"), code, button, class_="command")


def disclosure(title: str, *body: Html, is_open: bool = False, class_: str | None = None) -> Html:
    """Something that is shown when asked for."""
    return element("details", element("summary", title), *body, open=is_open, class_=class_)


def log(lines: Sequence[str], what: str) -> Html:
    """Lines of a log."""
    return element("pre", printable("\n".join(lines)), class_="log-lines", tabindex=0, aria_label=what)


def notices(lines: Sequence[str]) -> Html | None:
    """What a reader must know of, such as files that cannot be read; None for nothing."""
    if not lines:
        return None
    return element("ul", *(element("li", line) for line in lines), class_="notices", role="note")


def config(values: Mapping[str, Plain], typed: Sequence[str]) -> Html:
    """All keys and values, by their first word, with a field to search them.

    Args:
        values: by dotted key.
        typed: keys that were given on the command line.
    """
    groups: dict[str, list[str]] = {}
    for key in values:
        first, dot, _ = key.partition(".")
        groups.setdefault(first if dot else "", []).append(key)
    # single keys first, such as the seed
    blocks = [
        disclosure(f"{group or 'top level'} ({len(keys)})", _keys(group or "top level", keys, values, typed))
        for group, keys in sorted(groups.items(), key=lambda pair: pair[0] != "")
    ]
    return element("div", search("Search keys and values"), *blocks, class_="config", data_search=True)


def search(label: str) -> Html:
    """A field that hides the rows around it which do not match."""
    field = element("input", type="search", autocomplete="off", spellcheck="false", class_="search")
    found = element("output", class_="found", aria_live="polite")
    return element("p", element("label", f"{label} ", field), " ", found, class_="js-only")


def _keys(group: str, keys: Sequence[str], values: Mapping[str, Plain], typed: Sequence[str]) -> Html:
    rows = []
    for key in keys:
        mark = element("span", " typed", class_="typed") if key in typed else None
        rows.append([join([breakable(key), mark]), element("code", shown(values[key]))])
    return table(f"Keys of {group}", ["key", "value"], rows)


def _cell(cell: Cell | str, *, is_name: bool) -> Html:
    given = cell if isinstance(cell, Cell) else Cell(cell)
    classes = "number" if given.is_number else None
    if is_name:
        return element("th", given.content, scope="row", data_value=given.value, class_=classes)
    return element("td", given.content, data_value=given.value, class_=classes)
