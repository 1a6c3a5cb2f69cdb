"""Benchmarks run from any folder and leave the rows that they print; how fast anything is, is not asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")


class Case(NamedTuple):
    """How a benchmark is run at its smallest.

    Attributes:
        options: of the command line.
        num_rows: of its table.
        columns: that some row must have.
    """

    options: str
    num_rows: int
    columns: set[str]


CASES = {
    "accuracy": Case(
        "--methods dino --minutes 0.02 --seeds 0 --bank 100", 1,
        {"untrained", "student", "teacher", "+- teacher", "steps", "images/s", "minutes", "each seed"},
    ),
    "checkpoint": Case("--backbone vit_micro --method simclr", 4, {"layout", "MiB", "save", "wait", "load", "write"}),
    "data": Case(
        "--files 200 --images 2 --rounds 1 --methods simclr", 5 + 2 * 4,
        {"s per million", "MiB a worker", "images/s", "times the whole"},
    ),
    "memory": Case("--backbones vit_micro --method byol", 2, {"parameters", "gradients", "optimizer", "teacher"}),
    "peers": Case(
        "--methods simclr ijepa --rounds 1 --steps 1 --batch 4", 2, {"library", "times ours", "by processor", "of peak"}
    ),
    "scaling": Case(
        "--method simclr --rounds 1 --steps 1 --sweeps depth ranks", 3 + 2 * 2 * 3,
        {"of", "is", "exponent", "cost an image"},
    ),
    "step": Case(
        "--methods ijepa --rounds 1 --steps 1 --threads 1 --batch 4", 1,
        {"bare / framework", "by processor", "views", "of peak", "bare of peak", "GFLOP"},
    ),
    "strategies": Case("--backbone vit_micro --rounds 1 --steps 1", 2, {"times ddp", "MiB handed over", "of them"}),
    "teacher": Case("--backbone vit_micro --rounds 1", 8, {"network", "tensors", "times ours"}),
    "views": Case("--size 32 --batch 4 --rounds 1 --operations", 7 * 3, {"operations", "views/s", "times ours"}),
}  # fmt: skip


def test_every_benchmark_is_run_here() -> None:
    scripts = {path.stem.removeprefix("bench_") for path in (ROOT / "scripts").glob("bench_*.py")}
    assert scripts == set(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_benchmark_leaves_its_rows(name: str, tmp_path: Path) -> None:
    if name == "accuracy" and not FASHION_MNIST.is_dir():
        pytest.skip("Fashion-MNIST is not installed")
    case = CASES[name]
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / f"bench_{name}.py"), *case.options.split()],
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    tables = [json.loads(path.read_text()) for path in (tmp_path / "runs" / "benchmarks").glob(f"{name}*.json")]
    rows = [row for table in tables for row in table["rows"] if row.get("by") != "kornia"]  # if installed
    assert len(rows) == case.num_rows
    assert case.columns <= {column for row in rows for column in row}
    assert all(table["title"] in done.stdout for table in tables)
