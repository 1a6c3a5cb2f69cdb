"""A training step under ddp and fsdp2: time, bytes sent and collectives.

    python scripts/bench_strategies.py
    python scripts/bench_strategies.py --backbone vit_small --ranks 4 --method byol

Whole runs on CPUs with gloo, several processes on this machine, in turns: some rounds of a fresh group of processes
for each strategy. Collectives and the bytes that one process hands to them are counted in one step by torch's profiler.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from scripts.rank_runs import STRATEGIES, RankRun, run_ranks
from scripts.timing import Cell, middle, report


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="vit_tiny", help="an option of conf/backbone")
    parser.add_argument("--method", default="simclr", help="an option of conf/method")
    parser.add_argument("--ranks", type=int, default=2, help="processes")
    parser.add_argument("--batch", type=int, default=8, help="images a process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="in a round")
    parser.add_argument("overrides", nargs="*", help="further words of the command line, key=value")
    arguments = parser.parse_args()
    words = [f"method={arguments.method}", f"backbone={arguments.backbone}", "data.image_size=64", *arguments.overrides]
    batch = arguments.ranks * arguments.batch
    found: dict[str, list[RankRun]] = {strategy: [] for strategy in STRATEGIES}
    for _ in range(arguments.rounds):
        for strategy in STRATEGIES:
            group = run_ranks(
                [f"strategy={strategy}", *words], ranks=arguments.ranks, batch=batch, steps=arguments.steps,
                counts_collectives=True,
            )  # fmt: skip
            found[strategy].append(group[0])
    times = {strategy: middle(entry.lap for entry in entries) for strategy, entries in found.items()}
    rows: list[dict[str, Cell]] = []
    for strategy in STRATEGIES:
        calls = found[strategy][-1].calls
        rows.append(
            {
                "strategy": strategy,
                "ms": 1e3 * times[strategy].clock,
                "times ddp": times[strategy].clock / times["ddp"].clock,
                "by processor": times[strategy].processor / times["ddp"].processor,
                "MiB handed over": median(entry.num_bytes for entry in found[strategy]) / 2**20,
                "collectives": sum(calls.values()),
                "of them": " ".join(f"{name} {count}" for name, count in sorted(calls.items())),
            }
        )
    title = f"a training step, {arguments.method}, {arguments.backbone}, {arguments.ranks} x {arguments.batch} images"
    report("strategies", title, rows)


if __name__ == "__main__":
    main()
