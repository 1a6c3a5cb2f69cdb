"""key=value words of the scripts that take no experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spt.config.closest import closest
from spt.config.errors import ConfigError


def read_words(words: Sequence[str], defaults: Mapping[str, str | None]) -> dict[str, str | None]:
    """Values by key, those that were not typed as they are by default; null is None.

    Raises:
        ConfigError: a word is no key=value, a key does not exist, or one is given twice; all of them.
    """
    values = dict(defaults)
    mistakes = []
    given = set()
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            mistakes.append(f"{word} is no key=value. The keys are {', '.join(defaults)}.")
        elif key not in defaults:
            near = closest(key, defaults)
            advice = f"did you mean: {', '.join(near)}" if near else f"the keys are {', '.join(defaults)}"
            mistakes.append(f"{key} does not exist.\n    {advice}")
        elif key in given:
            mistakes.append(f"{key} is given twice.")
        else:
            given.add(key)
            values[key] = None if value in ("", "null") else value
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return values


def flag(key: str, value: str | None) -> bool:
    """What true or false stands for.

    Raises:
        ConfigError: it is neither.
    """
    if value not in ("true", "false"):
        raise ConfigError(f"{key}={value} is neither true nor false; use {key}=true or {key}=false.")
    return value == "true"
