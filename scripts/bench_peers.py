"""The training step of this project against stable-pretraining's and lightly's, each in an environment of its own.

    python -m venv ~/stable && ~/stable/bin/pip install stable-pretraining
    python -m venv ~/lightly && ~/lightly/bin/pip install lightly timm
    python scripts/bench_peers.py --stable-pretraining ~/stable/bin/python --lightly ~/lightly/bin/python

Same backbone, heads, batch, crops, AdamW, float32, threads and random tensors (scripts/peer_worker.py). The processes
take turns, so that load on the machine meets all alike; while one runs, the others wait. I-JEPA is left out: the
peers draw masks of other sizes, which is other work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from scripts.timing import Cell, Lap, middle, ratio, report

WORKER = Path(__file__).with_name("peer_worker.py")
OURS = "ours"


class Contestant:
    """A worker process.

    Args:
        python: of its environment.
        arguments: of the worker.
        log: what its libraries say.
    """

    def __init__(self, python: str, arguments: list[str], log: IO[str]) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": arguments[-1]}
        self.process = subprocess.Popen(
            [python, str(WORKER), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env=environment,
        )  # fmt: skip

    def answer(self) -> str:
        """The next line of the worker.

        Raises:
            RuntimeError: it has ended.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(map(str, self.process.args))} ended; its last words are in runs/benchmarks")
        return line.strip()

    def lap(self) -> Lap:
        """One turn."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return Lap(*json.loads(self.answer()))

    def end(self) -> None:
        """No more turns."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stable-pretraining", help="the python of its environment")
    parser.add_argument("--lightly", help="the python of its environment")
    parser.add_argument("--methods", nargs="+", default=["simclr", "byol", "dino"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="in a round")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)  # of the workers; what the report says
    pythons = {
        OURS: sys.executable, "stable-pretraining": arguments.stable_pretraining, "lightly": arguments.lightly,
    }  # fmt: skip
    rows: list[dict[str, Cell]] = []
    for method in arguments.methods:
        laps = _measure(method, {name: python for name, python in pythons.items() if python}, arguments)
        for name, found in laps.items():
            times, slower = middle(found), ratio(found, laps[OURS])
            rows.append(
                {
                    "method": method,
                    "library": name,
                    "ms": 1e3 * times.clock,
                    "processor ms": 1e3 * times.processor,
                    "times ours": slower.clock,
                    "by processor": slower.processor,
                }
            )
    title = (
        f"a training step, vit_tiny, 32 pixels, patches of 8, batch {arguments.batch}, {arguments.threads} thread(s)"
    )
    report("peers", title, rows)


def _measure(method: str, pythons: dict[str, str], arguments: argparse.Namespace) -> dict[str, list[Lap]]:
    options = ["--batch", str(arguments.batch), "--steps", str(arguments.steps), "--threads", str(arguments.threads)]
    Path("runs/benchmarks").mkdir(parents=True, exist_ok=True)
    with open("runs/benchmarks/peers.log", "a") as log:
        workers = {name: Contestant(python, [name, method, *options], log) for name, python in pythons.items()}
        try:
            for worker in workers.values():
                assert worker.answer() == "ready"
            laps: dict[str, list[Lap]] = {name: [] for name in workers}
            for _ in range(arguments.rounds):
                for name, worker in workers.items():
                    laps[name].append(worker.lap())
        finally:
            for worker in workers.values():
                worker.end()
    return laps


if __name__ == "__main__":
    main()
