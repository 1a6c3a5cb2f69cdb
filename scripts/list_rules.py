"""Prints the table of rules: what is refused or warned about, with an example of what each says."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from spt.config.rules import RULES, Rule


def row(rule: Rule) -> str:
    """One row of the table, with the message and the advice of its example."""
    lines = [f"{rule.severity:<9} {rule.name}", rule.message(rule.example), f"try: {rule.fix(rule.example)}"]
    return "\n          ".join(lines)


def main() -> None:
    """Prints every row."""
    for rule in sorted(RULES, key=lambda rule: rule.severity):
        print(row(rule))
    print(f"{len(RULES)} rules. A fact that is not known breaks none.")


if __name__ == "__main__":
    main()
