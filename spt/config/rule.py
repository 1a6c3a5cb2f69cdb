"""What a rule is: one row of the table in spt/config/rules.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from spt.config.facts import Facts


class Rule(NamedTuple):
    """One row of the table.

    Attributes:
        name: what an error is called, in words joined by hyphens.
        broken: whether these facts break the rule.
        message: the keys and values at fault, and why they cannot work.
        fix: something to type instead.
        severity: an error stops the run before anything is built; a warning is logged and the run goes on.
        example: facts that break it, for the printed table.
    """

    name: str
    broken: Callable[[Facts], bool]
    message: Callable[[Facts], str]
    fix: Callable[[Facts], str]
    severity: Literal["error", "warning"]
    example: Facts
