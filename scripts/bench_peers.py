"""The training step of this project against stable-pretraining's and lightly's, each in an environment of its own.

    python -m venv ~/stable && ~/stable/bin/pip install stable-pretraining
    python -m venv ~/lightly && ~/lightly/bin/pip install lightly timm
    python scripts/bench_peers.py --stable-pretraining ~/stable/bin/python --lightly ~/lightly/bin/python

Same backbone, heads, batch, crops, AdamW, float32, threads and random tensors (scripts/peer_worker.py). The processes
take turns, so that load on the machine meets all alike; while one runs, the others wait.

I-JEPA: the libraries draw masks of different sizes, and stable-pretraining predicts all blocks in one sequence where
the authors, lightly and this project take a sequence for each. So that the work is the same, all get ready positions
of one target block: 10 tokens of context, 6 to predict, a predictor 192 wide and 6 blocks deep. Drawing is not timed.

of peak: how much of the rate of a large matrix product, measured in the same rounds on as many threads, a step
reaches. Operations are counted on this project's step, so that a library which computes more for the same result has
a lower share, not a higher one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.contestant import Contestant
from scripts.flops import matrix_product, share_of_peak, step_flops
from scripts.peer_worker import METHODS, positions_of, views_of, words_of
from scripts.timing import FOLDER, Cell, Lap, middle, ratio, report, take_turns
from spt.config.build import build_method
from spt.types import Batch, Masks

WORKER = Path(__file__).with_name("peer_worker.py")
OURS, PRODUCT = "ours", "product"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stable-pretraining", help="the python of its environment")
    parser.add_argument("--lightly", help="the python of its environment")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
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
        product, flops = middle(laps.pop(PRODUCT)), _flops(method, arguments.batch)
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
                    "of peak": share_of_peak(flops, step=times, product=product),
                }
            )
    title = (
        f"a training step, vit_tiny, 32 pixels, patches of 8, batch {arguments.batch}, {arguments.threads} thread(s)"
    )
    report("peers", title, rows)


def _measure(method: str, pythons: dict[str, str], arguments: argparse.Namespace) -> dict[str, list[Lap]]:
    """The laps of every worker and, in this process, of a matrix product."""
    options = ["--batch", str(arguments.batch), "--steps", str(arguments.steps), "--threads", str(arguments.threads)]
    product = {PRODUCT: matrix_product()}
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "peers.log", "a") as log:
        workers = {
            name: Contestant([python, str(WORKER), name, method, *options], threads=arguments.threads, log=log)
            for name, python in pythons.items()
        }
        try:
            for worker in workers.values():
                assert worker.answer() == "ready"
            laps: dict[str, list[Lap]] = {name: [] for name in (*workers, PRODUCT)}
            for _ in range(arguments.rounds):
                for name, worker in workers.items():
                    worker.go()
                    laps[name].append(Lap(*json.loads(worker.answer())))
                laps[PRODUCT] += take_turns(product, rounds=1, steps=1)[PRODUCT]
        finally:
            for worker in workers.values():
                worker.end()
    return laps


def _flops(method: str, batch: int) -> int:
    """Of this project's step."""
    with tempfile.TemporaryDirectory() as folder:
        network = build_method(spt.compose(*words_of(method, batch), f"hydra.run.dir={folder}"))
    masks = Masks(*positions_of(batch)) if method == "ijepa" else None
    return step_flops(network, Batch(*views_of(method, batch), masks))


if __name__ == "__main__":
    main()
