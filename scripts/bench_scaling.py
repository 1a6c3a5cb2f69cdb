"""How a training step's cost grows with batch, crops, image size, depth and processes, one at a time.

    python scripts/bench_scaling.py
    python scripts/bench_scaling.py --method byol --rounds 5 --sweeps depth ranks

Batch, crops, size and depth: the step of the method alone (forward, loss, gradients), ready views, one thread by
default. exponent: of a power law between neighbours; 1 means that twice as much costs twice as much.

Ranks: whole runs of 1, 2 and 4 processes on one thread each, under ddp and fsdp2 with gloo, with one batch for all of
them or one for each. Processor time is that of all processes together. cost an image: its share of that, over what it
costs one process; 1 means that spreading the work costs nothing, which more processes than cores do not hide.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.rank_runs import STRATEGIES, run_ranks
from scripts.timing import Cell, Lap, middle, report, take_turns
from spt.config.build import build_method
from spt.types import Batch, Progress

START = {"batch": 8, "local crops": 2, "pixels": 32, "depth": 4}
SWEEPS = {"batch": (4, 8, 16, 32), "local crops": (0, 2, 4, 8), "pixels": (32, 64, 96), "depth": (2, 4, 8)}
RANKS = "ranks"
NUM_RANKS = (1, 2, 4)
RANK_BATCHES = {"in all": 16, "each": 8}  # images of a step
PATCH = 8


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="dino", help="an option of conf/method that needs no masks")
    parser.add_argument("--threads", type=int, default=1, help="of the step alone; processes have one each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="of a run of several processes, in a round")
    parser.add_argument("--sweeps", nargs="+", default=[*SWEEPS, RANKS], choices=[*SWEEPS, RANKS])
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows: list[dict[str, Cell]] = []
    for name in arguments.sweeps:
        if name == RANKS:
            rows += _ranks(arguments)
        elif name != "local crops" or arguments.method == "dino":
            rows += _sweep(name, arguments)
    start = " ".join(f"{name} {value}" for name, value in START.items())
    report("scaling", f"a step of {arguments.method}, vit_tiny, patches of {PATCH}; unless varied: {start}", rows)


def _sweep(name: str, arguments: argparse.Namespace) -> list[dict[str, Cell]]:
    """A row for every value of one size."""
    contestants = {str(value): _step(arguments.method, {**START, name: value}) for value in SWEEPS[name]}
    laps = take_turns(contestants, rounds=arguments.rounds, steps=1)
    rows: list[dict[str, Cell]] = []
    before: tuple[int, float] | None = None
    for value in SWEEPS[name]:
        times = middle(laps[str(value)])
        row: dict[str, Cell] = {"of": name, "is": value, "ms": 1e3 * times.clock}
        row["processor ms"] = 1e3 * times.processor
        if before is not None and before[0]:
            row["exponent"] = math.log(times.processor / before[1]) / math.log(value / before[0])
        rows.append(row)
        before = value, times.processor
    return rows


def _ranks(arguments: argparse.Namespace) -> list[dict[str, Cell]]:
    """A row for every strategy, way of sharing the batch and number of processes; they take turns."""
    cases = [(strategy, of, ranks) for strategy in STRATEGIES for of in RANK_BATCHES for ranks in NUM_RANKS]
    found: dict[tuple[str, str, int], list[Lap]] = {case: [] for case in cases}
    for _ in range(arguments.rounds):
        for strategy, of, ranks in cases:
            words = [f"strategy={strategy}", *_words(arguments.method, START)]
            group = run_ranks(words, ranks=ranks, batch=_images(of, ranks), steps=arguments.steps)
            lap = Lap(median(run.lap.clock for run in group), sum(run.lap.processor for run in group))
            found[strategy, of, ranks].append(lap)
    rows: list[dict[str, Cell]] = []
    for strategy, of, ranks in cases:
        times, images = middle(found[strategy, of, ranks]), _images(of, ranks)
        alone = middle(found[strategy, of, NUM_RANKS[0]]).processor / _images(of, NUM_RANKS[0])
        rows.append(
            {
                "of": f"ranks, {strategy}, {RANK_BATCHES[of]} images {of}",
                "is": ranks,
                "ms": 1e3 * times.clock,
                "processor ms": 1e3 * times.processor,
                "images/s": images / times.clock,
                "cost an image": times.processor / images / alone,
            }
        )
    return rows


def _images(of: str, ranks: int) -> int:
    """Of a step of all processes."""
    return RANK_BATCHES[of] * (ranks if of == "each" else 1)


def _words(method: str, sizes: dict[str, int]) -> list[str]:
    local = sizes["local crops"] if method == "dino" else 0
    own = ["method.num_prototypes=4096", f"views.num_local_views={local}"] if method == "dino" else []
    return [
        f"method={method}", "data=fake", f"data.image_size={sizes['pixels']}", "backbone=vit_tiny",
        f"backbone.patch_size={PATCH}", f"backbone.depth={sizes['depth']}", *own,
    ]  # fmt: skip


def _step(method: str, sizes: dict[str, int]) -> Callable[[], None]:
    with tempfile.TemporaryDirectory() as folder:
        network = build_method(spt.compose(*_words(method, sizes), f"hydra.run.dir={folder}"))
    batch = Batch(
        [torch.randn(sizes["batch"], 3, sizes["pixels"], sizes["pixels"]) for _ in range(2)],
        [
            torch.randn(sizes["batch"], 3, 2 * PATCH, 2 * PATCH)
            for _ in range(sizes["local crops"] if method == "dino" else 0)
        ],
    )

    def step() -> None:
        network.zero_grad()
        network.step(batch, Progress(5, 100, 10)).loss.backward()

    return step


if __name__ == "__main__":
    main()
