"""What README says about combinations is what the rules say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spt.config.rules import RULES
from spt.config.tree import project_tree

ROOT = Path(__file__).resolve().parents[2]


def listed(*arguments: str) -> str:
    """What the script prints, on a machine with neither GPUs nor DeepSpeed as on any other."""
    command = [sys.executable, str(ROOT / "scripts" / "list_rules.py"), *arguments]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.fixture(scope="module")
def matrix() -> str:
    """The printed matrix."""
    return listed("--matrix").strip()


def test_readme_shows_the_matrix_that_the_rules_make(matrix: str) -> None:
    shown = re.search(r"<!-- matrix -->\n(.*?)\n<!-- /matrix -->", (ROOT / "README.md").read_text(), re.DOTALL)
    assert shown is not None, "README.md has no block between <!-- matrix --> and <!-- /matrix -->"
    assert shown[1].strip() == matrix, "paste the output of: python scripts/list_rules.py --matrix"


def test_the_matrix_has_a_row_for_every_method_and_strategy(matrix: str) -> None:
    tree = project_tree()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")[:2]) for line in matrix.splitlines()[2:]]
    assert rows == [(method, strategy) for method in tree.options("method") for strategy in tree.options("strategy")]


def test_a_cell_is_yes_or_the_names_of_rules(matrix: str) -> None:
    names = {"yes", *(rule.name for rule in RULES if rule.severity == "error")}
    for line in matrix.splitlines()[2:]:
        for cell in line.strip("|").split("|")[2:]:
            assert set(cell.strip().split(", ")) <= names


def test_the_script_prints_every_rule() -> None:
    printed = listed()
    for rule in RULES:
        assert f" {rule.name}\n" in printed
