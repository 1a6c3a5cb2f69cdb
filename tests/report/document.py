"""A page as its elements, read by the standard library's parser."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from spt.report.page import read_page, render
from tests.report.folders import NOW

_VOID = {"meta", "img", "input", "wbr"}


class Element(NamedTuple):
    """An element of a page.

    Attributes:
        tag: its name.
        attributes: by name; "" for those without a value.
        inside: the elements around it, outermost first.
        texts: all text in it, in order.
    """

    tag: str
    attributes: dict[str, str]
    inside: list[Element]
    texts: list[str]

    @property
    def text(self) -> str:
        """All text in it."""
        return " ".join(" ".join(self.texts).split())


class Document(HTMLParser):
    """Elements of a page in order.

    Args:
        html: the page.

    Raises:
        AssertionError: an element is not closed where it should be.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self._is_one_word = False
        self.feed(html)
        self.close()
        assert not self._open, f"<{self._open[-1].tag}> is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, list(self._open), [])
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)
        self._is_one_word = tag == "wbr"  # what follows goes on with the word before it

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            if self._is_one_word and element.texts:
                element.texts[-1] += data
            else:
                element.texts.append(data)
        self._is_one_word = False

    def all(self, tag: str, class_: str = "") -> list[Element]:
        """Elements with a tag, and a class if one is named."""
        return [
            element
            for element in self.elements
            if element.tag == tag and (not class_ or class_ in element.attributes.get("class", "").split())
        ]

    def section(self, id_: str) -> str:
        """The text of a part of the page; "" where there is none."""
        return next((part.text for part in self.all("section") if part.attributes.get("id") == id_), "")

    def table(self, caption: str) -> list[list[str]]:
        """The rows of the table whose caption begins so."""
        (whole,) = (table for table in self.all("table") if table.text.startswith(caption))
        rows = [row for row in self.all("tr") if any(outer is whole for outer in row.inside)]
        return [[cell.text for cell in self._cells(row)] for row in rows]

    def _cells(self, row: Element) -> Iterator[Element]:
        return (cell for cell in self.elements if cell.tag in ("th", "td") and cell.inside and cell.inside[-1] is row)


def report(folder: Path) -> Document:
    """The page about a folder."""
    return Document(render(read_page(folder, now=NOW), now=NOW))
