"""The framework's training step against a bare PyTorch loop over the same networks, method by method.

    python scripts/bench_step.py
    python scripts/bench_step.py --methods dino --rounds 9 backbone=vit_micro
    python scripts/bench_step.py --profile 40 --methods simclr backbone=vit_micro backbone.embed_dim=16

Both run in this process in turns: some steps of a whole run (loop, callbacks, logging, probes, metrics.csv), then as
many of the bare loop (scripts/bare_loops.py), images in memory. bare / framework: 1 means that the framework costs
nothing; by the clock, and by the time of the process on all processors, which other users of the machine disturb less.
views: share of the augmentations, which both make, in the bare step. of peak: how much of the rate of a large float32
matrix product, measured in the same rounds on the same threads, the step reaches. Only the products, convolutions
and attention of networks and loss are counted as work (scripts/flops.py); the time is that of the whole step.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import tempfile
from pathlib import Path

import torch
from lightning import Callback, LightningModule, Trainer
from omegaconf import DictConfig

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.bare_loops import LOSSES, BareLoop
from scripts.flops import matrix_product, share_of_peak, step_flops
from scripts.timing import Cell, Lap, Stopwatch, middle, ratio, report, take_turns
from spt.config.build import build_module
from spt.data.images import Key
from spt.data.module import ImageData
from spt.run import prepare
from spt.types import Batch, Progress, Sample

WARMUP = 5  # steps of each before the first round


class Turns(Callback):
    """Measures stretches of training, and lets the bare loop, then a matrix product, run after each.

    Args:
        bare: the other contestant.
        rounds: stretches.
        steps: optimizer steps in each.

    Attributes:
        framework: laps of training.
        other: laps of the bare loop.
        product: laps of the matrix product.
    """

    def __init__(self, bare: BareLoop, *, rounds: int, steps: int) -> None:
        self.bare, self.rounds, self.steps = bare, rounds, steps
        self.framework: list[Lap] = []
        self.other: list[Lap] = []
        self.product: list[Lap] = []
        self._multiply = matrix_product()
        self._watch = Stopwatch()
        self._since = -WARMUP

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Counts; what follows this hook belongs to the next stretch."""
        self._since += 1
        if self._since == 0:
            take_turns({"bare": self.bare.step}, rounds=1, steps=1, warmup=WARMUP)
        elif self._since == self.steps:
            self.framework.append(self._watch.lap(self.steps))
            self.other += take_turns({"bare": self.bare.step}, rounds=1, steps=self.steps, warmup=0)["bare"]
            self.product += take_turns({"product": self._multiply}, rounds=1, steps=1)["product"]
            self._since = 0
        if self._since == 0:
            self._watch = Stopwatch()
        trainer.should_stop = len(self.framework) == self.rounds


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Further words are keys of the config: backbone=vit_micro."
    )
    parser.add_argument("--methods", nargs="+", default=sorted(LOSSES), help="options of conf/method")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="optimizer steps in a round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="images a step")
    parser.add_argument("--profile", type=int, default=0, help="print this many functions by time, and no table")
    arguments, words = parser.parse_known_args()
    torch.set_num_threads(arguments.threads)
    rows: list[dict[str, Cell]] = []
    for method in arguments.methods:
        turns, views, flops = _measure(method, words, arguments)
        framework, bare, product = middle(turns.framework), middle(turns.other), middle(turns.product)
        share = ratio(turns.other, turns.framework)
        rows.append(
            {
                "method": method,
                "framework ms": 1e3 * framework.clock,
                "bare ms": 1e3 * bare.clock,
                "bare / framework": share.clock,
                "by processor": share.processor,
                "overhead ms": 1e3 * (framework.processor - bare.processor),
                "views": views.processor / bare.processor,
                "of peak": share_of_peak(flops, step=framework, product=product),
                "bare of peak": share_of_peak(flops, step=bare, product=product),
                "GFLOP": flops / 1e9,
            }
        )
    if not arguments.profile:
        report("step", f"a training step, batch {arguments.batch}, {' '.join(_words(arguments.batch, words))}", rows)


def _words(batch: int, words: list[str]) -> list[str]:
    """The networks and images: small ones, on which an overhead shows."""
    small = [
        "data=fake", "data.image_size=32", f"data.num_images={2000 * batch}", f"data.global_batch_size={batch}",
        "data.source.num_val_images=32", "data.bank_size=32", "backbone=vit_tiny", "backbone.patch_size=8",
        "trainer.accelerator=cpu", "trainer.max_epochs=1", "optimizer.lr_schedule.warmup_epochs=0",
    ]  # fmt: skip
    given = {word.partition("=")[0] for word in words}
    return [*(word for word in small if word.partition("=")[0] not in given), *words]


# DINO's 65536 prototypes would be nearly all of a tiny network's time; 16 tokens have no room for ten of context
FIT = {
    "dino": ["method.num_prototypes=4096", "method.freeze_last_layer_epochs=0", "views.num_local_views=6"],
    "ijepa": ["masks.min_keep=2", "method.predictor.depth=6", "method.predictor.predictor_dim=96"],
}


def _measure(method: str, words: list[str], arguments: argparse.Namespace) -> tuple[Turns, Lap, int]:
    """Both contestants' laps, a lap of the augmentations, and the operations of a step."""
    with tempfile.TemporaryDirectory() as folder:
        given = {word.partition("=")[0] for word in words}
        fit = [word for word in FIT.get(method, []) if word.partition("=")[0] not in given]
        cfg = spt.compose(f"method={method}", *_words(arguments.batch, words), *fit, f"hydra.run.dir={folder}")
        run = prepare(cfg)
        bare = BareLoop(build_module(cfg), method, _samples(run.data, arguments.batch))
        turns = Turns(bare, rounds=arguments.rounds, steps=arguments.steps)
        run.trainer.callbacks.append(turns)  # type: ignore[attr-defined]
        if arguments.profile:
            _profile(lambda: run.trainer.fit(run.module, datamodule=run.data), arguments.profile)
        else:
            run.trainer.fit(run.module, datamodule=run.data)
    views = take_turns({"views": lambda: bare.views(bare.samples[0])}, rounds=arguments.rounds, steps=arguments.steps)
    return turns, middle(views["views"]), _flops(cfg, bare)


def _flops(cfg: DictConfig, bare: BareLoop) -> int:
    """Of the method's step, in a network of its own."""
    sample = bare.samples[0]
    masks = None if bare.masks is None else bare.masks(sample, Progress(0, 10000, 100))
    return step_flops(build_module(cfg).method, Batch(*bare.views(sample), masks))


def _samples(data: ImageData, batch: int) -> list[Sample]:
    """Eight batches, made once."""
    train = data.splits.train
    return [train.training_sample([Key(0, place * batch + row) for row in range(batch)], None) for place in range(8)]


def _profile(function: object, count: int) -> None:
    assert callable(function)
    profile = cProfile.Profile()
    profile.runcall(function)
    for order in ("tottime", "cumulative"):
        pstats.Stats(profile).sort_stats(order).print_stats(count)


if __name__ == "__main__":
    main()
