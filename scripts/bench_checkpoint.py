"""Time and bytes of saving and loading a checkpoint, and how long training waits for it.

    python scripts/bench_checkpoint.py
    python scripts/bench_checkpoint.py --backbone vit_small --method byol

One training step of two images a process on CPUs with gloo, then three saves and a load. save: until it
is on disk; wait: until training goes on (a file is written in the background, from a copy); load: into networks that
are there; write: as many bytes written plainly to the same disk.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from lightning import Callback, Trainer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.rank_runs import on_ranks
from scripts.timing import Cell, report
from spt.checkpoint.background import BackgroundWriter
from spt.checkpoint.card import Card
from spt.checkpoint.folder import remove
from spt.checkpoint.portable import Portable
from spt.config.build import build_data, build_module, build_trainer

# strategy, processes, further words
PLACES = (
    ("single", 1, ()),
    ("ddp", 2, ()),
    ("fsdp2", 2, ("strategy.save_distributed_checkpoint=false",)),
    ("fsdp2", 2, ("strategy.save_distributed_checkpoint=true",)),
)
REPEATS = 3


class Saves(Callback):
    """Saves after the step, several times.

    Attributes:
        seconds: of each save.
        waits: how long training would wait for it: a file is written in the background, from a copy.
        num_bytes: of the checkpoint.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: list[float] = []
        self.waits: list[float] = []
        self.num_bytes = 0

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        """Between two steps, where a run saves."""
        assert isinstance(trainer.strategy, Portable)
        writer = trainer.strategy.background_writer
        if trainer.strategy.checkpoint_layout == "file":
            writer = trainer.strategy.background_writer = BackgroundWriter()
        for _ in range(REPEATS):
            trainer.strategy.barrier()
            started_at = time.perf_counter()
            trainer.save_checkpoint(self.path)
            self.waits.append(time.perf_counter() - started_at)
            if writer is not None:
                writer.wait()
            self.seconds.append(time.perf_counter() - started_at)
        files = [self.path] if self.path.is_file() else list(self.path.iterdir())
        self.num_bytes = sum(file.stat().st_size for file in files)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="vit_base", help="an option of conf/backbone")
    parser.add_argument("--method", default="dino", help="an option of conf/method")
    parser.add_argument("overrides", nargs="*", help="further words of the command line, key=value")
    arguments = parser.parse_args()
    rows: list[dict[str, Cell]] = []
    for strategy, ranks, further in PLACES:
        words = [f"method={arguments.method}", f"backbone={arguments.backbone}", f"strategy={strategy}", *further]
        found = _measure([*words, *arguments.overrides], ranks)
        layout = "folder" if further and further[0].endswith("true") else "file"
        row: dict[str, Cell] = {"strategy": strategy, "ranks": ranks, "layout": layout}
        row["MiB"] = found.pop("bytes") / 2**20
        rows.append({**row, **found, "save / write": found["save"] / found["write"]})
    title = f"seconds of a checkpoint, {arguments.method}, {arguments.backbone}, medians of {REPEATS}"
    report("checkpoint", title, rows)


def _measure(words: list[str], ranks: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        on_ranks(_train_and_save, ranks, folder, words)
        return dict(torch.load(folder / "found.pt"))


def _train_and_save(rank: int, folder: Path, words: list[str]) -> None:
    words = [*words, f"trainer.devices={dist.get_world_size()}"]
    path = folder / "step00000001.ckpt"
    saves = Saves(path)
    _fit(words, folder, saves, None)
    loaded = Loaded()
    _fit([*words, "trainer.max_epochs=1"], folder, loaded, path)
    if rank == 0:
        found = {
            "bytes": saves.num_bytes,
            "save": median(saves.seconds),
            "wait": median(saves.waits),
            "load": loaded.seconds,
        }
        remove(path)
        torch.save({**found, "write": _plain_write(folder, saves.num_bytes)}, folder / "found.pt")


class Loaded(Callback):
    """Times what happens between setting up and the first step.

    Attributes:
        seconds: from the networks being in place to the checkpoint being loaded.
    """

    seconds = 0.0

    def on_fit_start(self, *_: object) -> None:
        """Lightning restores next."""
        self.started_at = time.perf_counter()

    def on_train_start(self, *_: object) -> None:
        """It has."""
        self.seconds = time.perf_counter() - self.started_at


def _fit(words: list[str], folder: Path, callback: Callback, checkpoint: Path | None) -> None:
    ranks = dist.get_world_size()
    small = [
        "data=fake", f"data.global_batch_size={2 * ranks}", f"data.num_images={2 * ranks}",
        "optimizer.lr_schedule.warmup_epochs=0", "trainer.accelerator=cpu", "probes=none", f"hydra.run.dir={folder}",
        "method.freeze_last_layer_epochs=0",
    ]  # fmt: skip
    given = {word.partition("=")[0] for word in words}
    if "trainer.max_epochs" not in given:
        small.append("trainer.max_epochs=1")
    if not any(word == "method=dino" for word in words):
        small.remove("method.freeze_last_layer_epochs=0")
    cfg = spt.compose(*small, *words)
    module, data = build_module(cfg), build_data(cfg)
    data.attach(module.views, module.with_masks)
    trainer = build_trainer(cfg, folder=folder, callbacks=[], loggers=[])
    trainer.callbacks = [callback, Card("", {}, {})]  # type: ignore[attr-defined]  # no bar, no checkpoint of its own
    trainer.fit(module, datamodule=data, ckpt_path=checkpoint)


def _plain_write(folder: Path, num_bytes: int) -> float:
    """Seconds to write and flush that many bytes to one file, the median of three."""
    data, seconds = os.urandom(2**20) * 16, []
    for _ in range(REPEATS):
        started_at = time.perf_counter()
        with (folder / "plain").open("wb") as file:
            for _ in range(num_bytes // len(data)):
                file.write(data)
            file.write(data[: num_bytes % len(data)])
            file.flush()
            os.fsync(file.fileno())
        seconds.append(time.perf_counter() - started_at)
        (folder / "plain").unlink()
    return median(seconds)


if __name__ == "__main__":
    main()
