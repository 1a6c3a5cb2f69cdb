"""Several processes on this machine's CPUs, with gloo, measured from inside; for benchmarks of strategies.

Processes are forked from a server that has imported the large libraries once, so that a group starts within seconds.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from lightning import Callback, LightningModule, Trainer
from torch import multiprocessing
from torch.profiler import ProfilerActivity, profile

import spt
from scripts.timing import Lap, Stopwatch
from spt.config.build import build_data, build_module, build_trainer
from spt.reporting.quiet import quiet

STRATEGIES = ("ddp", "fsdp2")
WARMUP = 2
_PRELOADED = ["torch.distributed.fsdp", "torchvision", "lightning", "timm", "hydra"]


class RankRun(NamedTuple):
    """What one process saw.

    Attributes:
        lap: of its steps.
        calls: collectives of one step, by name.
        num_bytes: handed to them by this process.
    """

    lap: Lap
    calls: dict[str, int]
    num_bytes: int


class Measure(Callback):
    """Times some steps, and may look into one more with torch's profiler.

    Args:
        steps: that are timed.
        counts_collectives: looks.

    Attributes:
        lap: of those steps.
        calls: collectives of one step, by name.
        num_bytes: handed to them by this process.
    """

    def __init__(self, steps: int, *, counts_collectives: bool) -> None:
        self.steps, self.count, self.counts_collectives = steps, 0, counts_collectives
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
            if self.counts_collectives:
                self._profile.start()
        elif self.count == WARMUP + self.steps + 1 and self.counts_collectives:
            self._profile.stop()
            self._count_collectives()

    def _count_collectives(self) -> None:
        for event in self._profile.events():
            if event.name.startswith("c10d::"):
                self.calls[event.name.removeprefix("c10d::").rstrip("_")] += 1
            if event.name.startswith("gloo:") and event.input_shapes:
                self.num_bytes += sum(4 * torch.Size(shape).numel() for shape in event.input_shapes if shape)


def on_ranks(function: Callable[..., None], ranks: int, folder: Path, *arguments: object) -> None:
    """Calls `function(rank, folder, *arguments)` in each of a fresh group of processes, of one thread each.

    Args:
        function: at the top level of a module.
        ranks: processes.
        folder: where they meet, and leave what they found.
        arguments: what pickle takes.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler talks of its starts, and of GPUs that are not there
    multiprocessing.set_forkserver_preload(_PRELOADED)
    multiprocessing.start_processes(
        _join, args=(function, ranks, folder, arguments), nprocs=ranks, start_method="forkserver"
    )


def _join(rank: int, function: Callable[..., None], ranks: int, folder: Path, arguments: tuple[object, ...]) -> None:
    torch.set_num_threads(1)
    quiet()
    # Lightning joins processes that it finds described here, and starts none
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), NODE_RANK="0")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=ranks, timeout=timedelta(minutes=5)
    )
    function(rank, folder, *arguments)


def run_ranks(
    words: Sequence[str], *, ranks: int, batch: int, steps: int, counts_collectives: bool = False
) -> list[RankRun]:
    """What each of a fresh group of processes measured while it trained.

    Args:
        words: of the command line; strategy among them, number of devices and size of batches not.
        ranks: processes, of one thread each.
        batch: images of a step, of all processes together.
        steps: that are timed.
        counts_collectives: of one more step.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        on_ranks(_train, ranks, folder, list(words), batch, steps, counts_collectives)
        found = [torch.load(folder / f"{rank}.pt") for rank in range(ranks)]
    return [RankRun(Lap(*lap), calls, num_bytes) for lap, calls, num_bytes in found]


def _train(rank: int, folder: Path, words: list[str], batch: int, steps: int, counts_collectives: bool) -> None:
    cfg = spt.compose(
        "data=fake", f"data.global_batch_size={batch}", f"data.num_images={batch * (WARMUP + steps + 2)}",
        "optimizer.lr_schedule.warmup_epochs=0", "trainer.accelerator=cpu",
        f"trainer.devices={dist.get_world_size()}", "trainer.max_epochs=1", "probes=none",
        f"hydra.run.dir={folder}", *words,
    )  # fmt: skip
    module, data, measure = build_module(cfg), build_data(cfg), Measure(steps, counts_collectives=counts_collectives)
    data.attach(module.views, module.with_masks)
    trainer = build_trainer(cfg, folder=folder, callbacks=[], loggers=[])
    trainer.callbacks = [measure]  # type: ignore[attr-defined]  # no bar, no checkpoint
    trainer.fit(module, datamodule=data)
    torch.save((tuple(measure.lap), dict(measure.calls), measure.num_bytes), folder / f"{rank}.pt")
