"""How a training step's cost grows with batch, crops, image size and depth, one at a time.

    python scripts/bench_scaling.py
    python scripts/bench_scaling.py --method byol --rounds 5

The step of the method alone (forward, loss, gradients), ready views, one thread by default. exponent: of a power law
between neighbours; 1 means that twice as much costs twice as much.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.timing import Cell, middle, report, take_turns
from spt.config.build import build_method
from spt.types import Batch, Progress

START = {"batch": 8, "local crops": 2, "pixels": 32, "depth": 4}
SWEEPS = {"batch": (4, 8, 16, 32), "local crops": (0, 2, 4, 8), "pixels": (32, 64, 96), "depth": (2, 4, 8)}
PATCH = 8


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="dino", help="an option of conf/method that needs no masks")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows: list[dict[str, Cell]] = []
    for name, values in SWEEPS.items():
        if name == "local crops" and arguments.method != "dino":
            continue
        contestants = {str(value): _step(arguments.method, {**START, name: value}) for value in values}
        laps = take_turns(contestants, rounds=arguments.rounds, steps=1)
        before: tuple[int, float] | None = None
        for value in values:
            times = middle(laps[str(value)])
            row: dict[str, Cell] = {"of": name, "is": value, "ms": 1e3 * times.clock}
            row["processor ms"] = 1e3 * times.processor
            if before is not None and before[0]:
                row["exponent"] = math.log(times.processor / before[1]) / math.log(value / before[0])
            rows.append(row)
            before = value, times.processor
    start = " ".join(f"{name} {value}" for name, value in START.items())
    report("scaling", f"a step of {arguments.method}, vit_tiny, patches of {PATCH}; unless varied: {start}", rows)


def _step(method: str, sizes: dict[str, int]) -> Callable[[], None]:
    local = sizes["local crops"] if method == "dino" else 0
    words = ["method.num_prototypes=4096", f"views.num_local_views={local}"] if method == "dino" else []
    with tempfile.TemporaryDirectory() as folder:
        network = build_method(
            spt.compose(
                f"method={method}", "data=fake", f"data.image_size={sizes['pixels']}", "backbone=vit_tiny",
                f"backbone.patch_size={PATCH}", f"backbone.depth={sizes['depth']}", f"hydra.run.dir={folder}", *words,
            )
        )  # fmt: skip
    batch = Batch(
        [torch.randn(sizes["batch"], 3, sizes["pixels"], sizes["pixels"]) for _ in range(2)],
        [torch.randn(sizes["batch"], 3, 2 * PATCH, 2 * PATCH) for _ in range(local)],
    )

    def step() -> None:
        network.zero_grad()
        network.step(batch, Progress(5, 100, 10)).loss.backward()

    return step


if __name__ == "__main__":
    main()
