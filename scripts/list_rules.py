"""Prints the rules: what is refused or warned about, and which method x strategy x precision works, as Markdown.

python scripts/list_rules.py           every rule with an example of what it says, then the matrix
python scripts/list_rules.py --matrix  the matrix alone, as README.md shows it
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from spt.config.check import broken_rules
from spt.config.composer import open_composer
from spt.config.facts import Facts
from spt.config.rule import Rule
from spt.config.rules import RULES
from spt.config.tree import project_tree
from spt.reporting.screen import show

PRECISIONS = ("32-true", "bf16-mixed", "bf16-true", "16-mixed")
DEVICES = {"single": 1}  # of the matrix, 2 for all other strategies


def row(rule: Rule) -> str:
    """One row of the table, with the message and the advice of its example."""
    lines = [f"{rule.severity:<9} {rule.name}", rule.message(rule.example), f"try: {rule.fix(rule.example)}"]
    return "\n          ".join(lines)


def cell(facts: Facts, precision: str) -> str:
    """'yes', or the names of the rules that refuse a combination on GPUs with all that software can bring."""
    here = replace(
        facts, precision=precision, devices=DEVICES.get(facts.strategy or "", 2), accelerator="gpu", gpus=2,
        gpu_has_bfloat16=True, deepspeed_installed=True, torch_version=(2, 14), slurm_tasks=None,
        started_processes=None,
    )  # fmt: skip
    refused = broken_rules(here, severity="error")
    return ", ".join(rule.name for rule in refused) or "yes"


def matrix() -> str:
    """A Markdown table: a row for every method and strategy with the options that they choose, a column a precision."""
    tree = project_tree()
    lines = [
        "| method | strategy | " + " | ".join(PRECISIONS) + " |",
        "|" + " --- |" * (2 + len(PRECISIONS)),
    ]
    with open_composer(tree) as composer:
        for method, strategy in product(tree.options("method"), tree.options("strategy")):
            facts = composer.facts([f"method={method}", f"strategy={strategy}"])
            cells = [cell(facts, precision) for precision in PRECISIONS]
            lines.append(f"| {method} | {strategy} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Prints what the arguments ask for."""
    if "--matrix" not in sys.argv[1:]:
        rows = "\n".join(row(rule) for rule in sorted(RULES, key=lambda rule: rule.severity))
        show(f"{rows}\n{len(RULES)} rules. A fact that is not known breaks none.\n")
    show(matrix())


if __name__ == "__main__":
    main()
