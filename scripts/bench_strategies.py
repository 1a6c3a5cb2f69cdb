"""A training step under ddp and fsdp2: time, bytes sent and collectives.

    python scripts/bench_strategies.py
    python scripts/bench_strategies.py --backbone vit_small --ranks 4 --method byol

Whole runs on CPUs with gloo, several processes on this machine, in turns: some rounds of a fresh group of processes
for each strategy. Collectives and the bytes that one process hands to them are counted in one step by torch's profiler.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from lightning import Callback, LightningModule, Trainer
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.timing import Cell, Lap, Stopwatch, middle, report
from spt.config.build import build_data, build_module, build_trainer
from spt.reporting.quiet import quiet

STRATEGIES = ("ddp", "fsdp2")
WARMUP = 2


class Measure(Callback):
    """Times some steps, then looks into one more.

    Args:
        steps: that are timed.

    Attributes:
        lap: of those steps.
        calls: collectives of one step, by name.
        num_bytes: handed to them by this process.
    """

    def __init__(self, steps: int) -> None:
        self.steps, self.count = steps, 0
        self.lap = Lap(0.0, 0.0)
        self.calls: Counter[str] = Counter()
        self.num_bytes = 0
        self._watch = Stopwatch()
        self._profile = profile(activities=[ProfilerActivity.CPU], record_shapes=True)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Between two steps."""
        self.count += 1
        if self.count == WARMUP:
            self._watch = Stopwatch()
        elif self.count == WARMUP + self.steps:
            self.lap = self._watch.lap(self.steps)
            self._profile.start()
        elif self.count == WARMUP + self.steps + 1:
            self._profile.stop()
            self._count_collectives()

    def _count_collectives(self) -> None:
        for event in self._profile.events():
            if event.name.startswith("c10d::"):
                self.calls[event.name.removeprefix("c10d::").rstrip("_")] += 1
            if event.name.startswith("gloo:") and event.input_shapes:
                self.num_bytes += sum(4 * torch.Size(shape).numel() for shape in event.input_shapes if shape)


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
    found: dict[str, list[dict[str, object]]] = {strategy: [] for strategy in STRATEGIES}
    for _ in range(arguments.rounds):
        for strategy in STRATEGIES:
            with tempfile.TemporaryDirectory() as name:
                mp.spawn(_train, args=(strategy, arguments, Path(name)), nprocs=arguments.ranks)
                found[strategy].append(torch.load(Path(name) / "found.pt"))
    times = {strategy: middle(Lap(*entry["lap"]) for entry in entries) for strategy, entries in found.items()}  # type: ignore[misc]
    rows: list[dict[str, Cell]] = []
    for strategy in STRATEGIES:
        calls = found[strategy][-1]["calls"]
        assert isinstance(calls, dict)
        rows.append(
            {
                "strategy": strategy,
                "ms": 1e3 * times[strategy].clock,
                "times ddp": times[strategy].clock / times["ddp"].clock,
                "by processor": times[strategy].processor / times["ddp"].processor,
                "MiB handed over": median(int(str(entry["bytes"])) for entry in found[strategy]) / 2**20,
                "collectives": sum(calls.values()),
                "of them": " ".join(f"{name} {count}" for name, count in sorted(calls.items())),
            }
        )
    title = f"a training step, {arguments.method}, {arguments.backbone}, {arguments.ranks} x {arguments.batch} images"
    report("strategies", title, rows)


def _train(rank: int, strategy: str, arguments: argparse.Namespace, folder: Path) -> None:
    torch.set_num_threads(1)
    quiet()
    # Lightning joins processes that it finds described here, and starts none
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(arguments.ranks), NODE_RANK="0")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=arguments.ranks,
        timeout=timedelta(minutes=5),
    )  # fmt: skip
    batch = arguments.batch * arguments.ranks
    cfg = spt.compose(
        f"method={arguments.method}", f"backbone={arguments.backbone}", f"strategy={strategy}", "data=fake",
        "data.image_size=64", f"data.global_batch_size={batch}",
        f"data.num_images={batch * (WARMUP + arguments.steps + 2)}", "optimizer.lr_schedule.warmup_epochs=0",
        "trainer.accelerator=cpu", f"trainer.devices={arguments.ranks}", "trainer.max_epochs=1", "probes=none",
        f"hydra.run.dir={folder}", *arguments.overrides,
    )  # fmt: skip
    module, data, measure = build_module(cfg), build_data(cfg), Measure(arguments.steps)
    data.attach(module.views)
    trainer = build_trainer(cfg, folder=folder, callbacks=[], loggers=[])
    trainer.callbacks = [measure]  # type: ignore[attr-defined]  # no bar, no checkpoint
    trainer.fit(module, datamodule=data)
    if rank == 0:
        calls = dict(measure.calls)
        torch.save({"lap": tuple(measure.lap), "calls": calls, "bytes": measure.num_bytes}, folder / "found.pt")


if __name__ == "__main__":
    main()
