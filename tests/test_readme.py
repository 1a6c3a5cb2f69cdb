"""README's commands are the ones that work."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = "pip install -e . && python train.py"
TEST = 'pip install -e ".[dev]" && pytest -n 2'


def code_blocks(text: str) -> list[list[str]]:
    """Lines of the indented and fenced blocks, in order."""
    blocks = re.findall(r"(?:^ {4}\S.*\n)+|^```\w*\n(?:.*\n)*?```", text, flags=re.MULTILINE)
    return [[line.strip() for line in block.splitlines() if not line.startswith("```")] for block in blocks]


def test_readme_begins_with_the_two_commands_that_do_everything() -> None:
    text = (ROOT / "README.md").read_text()
    assert code_blocks(text)[0] == [RUN, TEST]
    above = text.partition(RUN)[0].split("\n")
    assert [line for line in above if line.strip() and not line.startswith(("# ", "```"))] == []  # the title alone


def test_continuous_integration_runs_readmes_second_command_word_for_word() -> None:
    lines = [line.strip() for line in (ROOT / ".ci" / "run").read_text().splitlines()]
    second = code_blocks((ROOT / "README.md").read_text())[0][1]
    assert lines.count(second) == 1
