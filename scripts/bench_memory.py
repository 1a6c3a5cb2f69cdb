"""Bytes on each device under ddp and fsdp2: parameters, gradients, optimizer state, teacher.

    python scripts/bench_memory.py method.freeze_last_layer_epochs=0
    python scripts/bench_memory.py --backbones vit_small vit_base --method simclr --ranks 2

Layers that are frozen at first, as DINO's last one, have neither gradient nor optimizer state then.
One training step of two images a process on CPUs with gloo; bytes of tensors are counted, not of the allocator, so
that the table holds for GPUs too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.rank_runs import STRATEGIES, on_ranks
from scripts.timing import Cell, report
from spt.config.build import build_data, build_module, build_trainer
from spt.distributed.shards import local

PARTS = ("parameters", "gradients", "optimizer", "teacher")


class Bytes(Callback):
    """What this process holds after the optimizer step.

    Attributes:
        sizes: bytes by part.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Counts; gradients are there until the next step."""
        (optimizer,) = trainer.optimizers
        moved = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        fixed = [parameter for parameter in pl_module.parameters() if not parameter.requires_grad]
        state = [value for entry in optimizer.state.values() for value in entry.values() if value.ndim]
        tensors = (moved, [parameter.grad for parameter in moved if parameter.grad is not None], state, fixed)
        self.sizes = {part: _bytes(held) for part, held in zip(PARTS, tensors, strict=True)}


def _bytes(tensors: list[Tensor]) -> int:
    return sum(local(tensor).numel() * tensor.element_size() for tensor in tensors)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbones", nargs="+", default=["vit_small", "vit_base"], help="options of conf/backbone")
    parser.add_argument("--method", default="dino", help="an option of conf/method")
    parser.add_argument("--ranks", type=int, default=2, help="processes")
    parser.add_argument("overrides", nargs="*", help="further words of the command line, key=value")
    arguments = parser.parse_args()
    rows: list[dict[str, Cell]] = []
    for backbone in arguments.backbones:
        sums: dict[str, int] = {}
        for strategy in STRATEGIES:
            words = [f"method={arguments.method}", f"backbone={backbone}", f"strategy={strategy}", *arguments.overrides]
            sizes = _measure(words, arguments.ranks)
            sums[strategy] = sum(sizes.values())
            row: dict[str, Cell] = {"backbone": backbone, "strategy": strategy}
            row |= {part: sizes[part] / 2**20 for part in PARTS}
            rows.append({**row, "sum": sums[strategy] / 2**20, "times ddp": sums[strategy] / sums["ddp"]})
    title = f"MiB on each device, {arguments.method}, {arguments.ranks} processes, largest over processes"
    report("memory", title, rows)


def _measure(words: list[str], ranks: int) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        on_ranks(_train_one_step, ranks, folder, words)
        found: list[dict[str, int]] = [torch.load(folder / f"{rank}.pt") for rank in range(ranks)]
    return {part: max(sizes[part] for sizes in found) for part in PARTS}


def _train_one_step(rank: int, folder: Path, words: list[str]) -> None:
    ranks = dist.get_world_size()
    small = [
        "data=fake", f"data.global_batch_size={2 * ranks}", f"data.num_images={2 * ranks}",
        "optimizer.lr_schedule.warmup_epochs=0", "trainer.accelerator=cpu", f"trainer.devices={ranks}",
        "trainer.max_epochs=1", "probes=none", f"hydra.run.dir={folder}",
    ]  # fmt: skip
    cfg = spt.compose(*small, *words)
    module, sizes = build_module(cfg), Bytes()
    data = build_data(cfg)
    data.attach(module.views, module.with_masks)
    trainer = build_trainer(cfg, folder=folder, callbacks=[], loggers=[])
    trainer.callbacks = [sizes]  # type: ignore[attr-defined]  # no bar, no checkpoint
    trainer.fit(module, datamodule=data)
    torch.save(sizes.sizes, folder / f"{rank}.pt")


if __name__ == "__main__":
    main()
