"""HTML as nested calls: text is escaped unless it is markup already, so that no name or message can become markup."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable

_VOID = {"img", "input", "meta", "wbr"}
_SHAPES = {"path", "line", "circle"}


class Html(str):
    """Text that is markup, to be taken as it is."""


def element(tag: str, *children: str | None, **attributes: str | float | bool | None) -> Html:
    """An element.

    Args:
        tag: its name.
        children: markup as it is, any other text escaped; None is left out.
        attributes: by name, underscores for hyphens and none at the end (class_, aria_label); True stands for an
            attribute without a value, False and None for none.
    """
    words = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{html.escape(_plain(value))}"')
    opening = f"<{' '.join(words)}>"
    if tag in _SHAPES:  # without its end here, what follows would be read as its content and not be drawn
        return Html(f"<{' '.join(words)}/>")
    return Html(opening if tag in _VOID and not children else f"{opening}{join(children)}</{tag}>")


def join(parts: Iterable[str | None]) -> Html:
    """Parts one after the other, escaped where they are not markup."""
    return Html("".join(part if isinstance(part, Html) else html.escape(part) for part in parts if part is not None))


def breakable(key: str) -> Html:
    """A dotted key that may go on in the next line after a dot, where the screen is narrow."""
    first, *others = key.split(".")
    return join([first, *(part for other in others for part in (".", element("wbr"), other))])


def json_for_script(content: object) -> Html:
    """JSON that nothing in it can end the script element of, or begin a comment in."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _plain(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
