"""README's matrix of method x strategy x precision: what it says works, trains; what it refuses names its rules."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest

from spt.config.rules import RULES
from tests.ranks import once, run_ranks
from tests.runs import EPOCHS, STEPS_PER_EPOCH, build, fit
from tests.strategies.cases import Case, Outcome, train_all

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "list_rules.py"


def read_matrix() -> dict[tuple[str, str, str], str]:
    """{(method, strategy, precision): "yes" or the names of rules}, as the script prints it."""
    spec = importlib.util.spec_from_file_location("list_rules", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in script.matrix().splitlines()]
    return {
        (method, strategy, precision): cell
        for method, strategy, *cells in rows
        for precision, cell in zip(header[2:], cells, strict=True)
    }


MATRIX = read_matrix()
WORKING = [cell for cell, text in MATRIX.items() if text == "yes"]
ON_CPU = [cell for cell in WORKING if cell[1] != "deepspeed_stage_3" and cell[2] != "16-mixed"]


@once
def outcomes(num_ranks: int) -> dict[Case, Outcome]:
    cells = [cell for cell in ON_CPU if (cell[1] == "single") == (num_ranks == 1)]
    cases = [Case(method, strategy, precision=precision) for method, strategy, precision in cells]
    return run_ranks(train_all, num_ranks, cases)[0]


@pytest.mark.parametrize("cell", ON_CPU, ids="-".join)
def test_a_combination_that_is_said_to_work_trains(cell: tuple[str, str, str]) -> None:
    method, strategy, precision = cell
    losses = outcomes(1 if strategy == "single" else 2)[Case(method, strategy, precision=precision)].losses
    assert len(losses) == 5
    assert all(math.isfinite(loss) for loss in losses)
    assert len(set(losses)) > 1


@pytest.mark.parametrize("cell", [cell for cell in MATRIX if cell not in WORKING], ids="-".join)
def test_a_combination_that_is_refused_names_rules_that_exist(cell: tuple[str, str, str]) -> None:
    names = MATRIX[cell].split(", ")
    assert set(names) <= {rule.name for rule in RULES if rule.severity == "error"}


def test_what_needs_another_machine_is_tested_there() -> None:
    """DeepSpeed's cells train in test_deepspeed.py (slow), float16's below (gpu)."""
    rest = [cell for cell in WORKING if cell not in ON_CPU]
    assert {(method, strategy) for method, strategy, _ in rest if strategy == "deepspeed_stage_3"} == {
        ("simclr", "deepspeed_stage_3")
    }
    assert all(precision == "16-mixed" for _, strategy, precision in rest if strategy != "deepspeed_stage_3")


@pytest.mark.gpu
@pytest.mark.parametrize("method", sorted({cell[0] for cell in WORKING}))
def test_float16_trains_on_a_gpu(method: str, tmp_path: Path) -> None:
    run = fit(build(method, tmp_path, "precision=16-mixed", "trainer.accelerator=gpu"))
    assert run.trainer.global_step == STEPS_PER_EPOCH * EPOCHS
