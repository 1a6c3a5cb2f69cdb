"""Numbers and times for people."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence

ARROW, DASH, PLUS_MINUS, ELLIPSIS, MINUS = "\u2192", "\u2013", "\u00b1", "\u2026", "\u2212"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def number(value: float | None) -> str:
    """To four digits; a dash where nothing was measured."""
    if value is None:
        return DASH
    if not math.isfinite(value):
        return str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}".replace("-", MINUS)
    decimals = 0 if value == 0 else max(0, 3 - math.floor(math.log10(abs(value))))
    shown = f"{value:,.{min(decimals, 4)}f}"
    return (shown.rstrip("0").rstrip(".") if abs(value) >= 1 and "." in shown else shown).replace("-", MINUS)


def measured(name: str, value: float | None) -> str:
    """A metric's value; shares of validation images to three decimals, as papers print them."""
    if name.startswith("val/") and value is not None and 0 <= value <= 1:
        return f"{value:.3f}"
    return number(value)


def difference(name: str, before: float | None, after: float | None) -> str:
    """How much a metric has moved, with its sign; empty where one end is not known."""
    if before is None or after is None or not math.isfinite(after - before):
        return ""
    change = after - before
    return ("+" if change > 0 else MINUS if change < 0 else PLUS_MINUS) + measured(name, abs(change))


def spread(name: str, values: Sequence[float]) -> str:
    """Mean and standard deviation of a sample (n - 1); the value alone where there is one."""
    if len(values) < 2:
        return measured(name, values[0]) if values else DASH
    deviation = statistics.stdev(values)
    decimals = 3 if deviation == 0 else min(6, max(0, 1 - math.floor(math.log10(deviation))))
    return f"{statistics.mean(values):.{decimals}f} {PLUS_MINUS} {deviation:.{decimals}f}".replace("-", MINUS)


def duration(seconds: float | None) -> str:
    """24 s, 3 min 20 s, 5 h 7 min, 2 d 3 h; a dash where it is not known."""
    if seconds is None:
        return DASH
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def count(number_of: int, noun: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number_of:,} {noun}{'s' * (number_of != 1)}"


def printable(text: str) -> str:
    """Text without the colours and other commands that a terminal obeys."""
    return _CONTROL.sub("", text)
