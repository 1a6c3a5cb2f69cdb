"""All broken rules at once."""

from __future__ import annotations

from spt.config.errors import ConfigError
from spt.config.facts import Facts
from spt.config.rules import RULES, Rule


def check(facts: Facts) -> list[str]:
    """Warnings for what works but may not be meant.

    Raises:
        ConfigError: at least one rule is broken; its text lists every broken one with something to type.
    """
    errors = broken_rules(facts, severity="error")
    if errors:
        raise ConfigError("\n".join(_shown(rule, facts) for rule in errors))
    return [_shown(rule, facts) for rule in broken_rules(facts, severity="warning")]


def broken_rules(facts: Facts, *, severity: str) -> list[Rule]:
    """The rows that these facts break, in the order of the table."""
    return [rule for rule in RULES if rule.severity == severity and rule.broken(facts)]


def _shown(rule: Rule, facts: Facts) -> str:
    return f"{rule.name}: {rule.message(facts)}\n    try: {rule.fix(facts)}"
