"""Accuracy for time: k-NN top-1 on Fashion-MNIST after equal minutes, here and with stable-pretraining's classes.

    python -m venv ~/stable && ~/stable/bin/pip install stable-pretraining kornia
    python scripts/bench_accuracy.py --stable-pretraining ~/stable/bin/python --minutes 5 --seeds 0 1 2
    python scripts/bench_accuracy.py --stable-pretraining ~/stable/bin/python --augments batch

Both train `backbone=vit_micro` from one file of weights, at one size of images, batch and AdamW, with the recipe of
conf/recipe/fashion_mnist-METHOD-vit_micro.yaml: views, temperatures, widths, clipping, and at every step learning
rate, weight decay and momentum. Where the classes differ, the other one's way is taken (EQUAL, below). Each brings
its own images to its own method: here the data in memory and augmentations of a batch at a time; there its data set,
its torchvision transforms and PyTorch's DataLoader without workers, for a worker would share the core, or, with
--augments batch, its transforms by kornia (scripts/accuracy_peer.py). Neither evaluates, draws or saves while it
trains. What is left are the libraries: masks, predictor and rescaled first weights of I-JEPA, BatchNorm over both
views or over each, prototypes of unit length here and free there.

The two run at the same time, pinned to a core each on one thread, and change cores from seed to seed. Minutes are
minutes of processor time, which others on the machine do not take away; the clock is beside them. Schedules follow
the share of the minutes that is spent in place of the share of steps, so that both end with them, whatever a step
costs. Embeddings of both are scored by one code: unaugmented images, weighted k-NN as in conf/probes. Students and
teachers are scored; which of them the method's authors evaluate, `evaluated` says. Needs Linux and two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import IO, Any, NamedTuple

import torch
from omegaconf import OmegaConf
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.contestant import Contestant
from scripts.timing import FOLDER, Cell, report
from spt.data.images import MemoryImages
from spt.evaluation.knn import knn_predict
from spt.probes.probe import top1
from spt.run import Run, prepare
from spt.types import Progress

WORKER = Path(__file__).with_name("accuracy_worker.py")
OURS, PEER = "ours", "stable-pretraining"
WARMUP = 0.1  # share of the minutes in which the learning rate rises
POINTS = 1000  # of the schedules, over the minutes
# what stable-pretraining's classes, or torchvision, do not have otherwise
EQUAL = {
    "simclr": [],
    "byol": [f"views.global_views.{view}.brightness_mode=multiplicative" for view in ("first", "second")],
    # drop-path would reach its teacher too; Lightning clips the joint norm
    "dino": ["method.head.batch_norm=false", "backbone.drop_path=0.0", "optimizer.clip_unit=global"],
    "ijepa": [],
}


class Trained(NamedTuple):
    """What came of one training.

    Attributes:
        clock: seconds.
        processor: seconds.
        steps: optimizer steps.
        images: that these steps saw.
        evaluated: the network that the method's authors evaluate.
        before: k-NN top-1 of the untrained networks, by network.
        after: of the trained ones.
    """

    clock: float
    processor: float
    steps: int
    images: int
    evaluated: str
    before: dict[str, float]
    after: dict[str, float]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stable-pretraining", help="the python of its environment")
    parser.add_argument("--methods", nargs="+", default=list(EQUAL), choices=list(EQUAL))
    parser.add_argument("--minutes", type=float, default=5.0, help="of processor time, for each training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--augments", default="dataloader", choices=["dataloader", "batch"], help="of the other one")
    parser.add_argument("--bank", type=int, default=10000, help="training images that k-NN searches")
    arguments = parser.parse_args()
    pythons = {OURS: sys.executable, PEER: arguments.stable_pretraining}
    pythons = {name: python for name, python in pythons.items() if python}
    torch.set_num_threads(1)  # of the workers; what the report says
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Cell]] = []
    with open(FOLDER / "accuracy.log", "a") as log:
        for method in arguments.methods:
            found: dict[str, list[Trained]] = {name: [] for name in pythons}
            for place, seed in enumerate(arguments.seeds):
                for name, trained in _train(method, seed, place, pythons, arguments, log).items():
                    found[name].append(trained)
                    print(f"{method}, seed {seed}, {name}: {trained}", file=sys.stderr, flush=True)
            rows += [_row(method, name, trained) for name, trained in found.items()]
    title = (
        f"k-NN top-1 on Fashion-MNIST after {arguments.minutes:g} minutes on one thread, vit_micro, "
        f"bank of {arguments.bank}, seeds {' '.join(map(str, arguments.seeds))}, the other's augmentations by "
        f"{arguments.augments}"
    )
    report("accuracy" if arguments.augments == "dataloader" else "accuracy_batch", title, rows)


def _train(
    method: str, seed: int, place: int, pythons: dict[str, str], arguments: argparse.Namespace, log: IO[str]
) -> dict[str, Trained]:
    """Both at the same time, begun together once both are ready."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task = _write_task(folder, method, seed, arguments)
        workers = {}
        for number, (who, python) in enumerate(pythons.items(), start=place):
            command = [python, str(WORKER), who, name, str(cores[number % len(cores)])]
            workers[who] = Contestant(command, threads=1, log=log)
        found = _answers(workers)
        batch, evaluated = task["config"]["data"]["global_batch_size"], task["evaluates"]
        return {
            who: Trained(*numbers, batch * numbers[-1], evaluated, *_scores(folder, who, arguments.bank))
            for who, numbers in found.items()
        }


def _answers(workers: dict[str, Contestant]) -> dict[str, list[Any]]:
    """Seconds by the clock and the processor, and steps, of each."""
    try:
        for worker in workers.values():
            assert worker.answer() == "ready"
        for worker in workers.values():
            worker.go()
        found = {who: json.loads(worker.answer()) for who, worker in workers.items()}
        for worker in workers.values():
            assert worker.answer() == "embedded"
    finally:
        for worker in workers.values():
            worker.end()
    return found


def _write_task(folder: Path, method: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """task.json, which is returned, the weights to start from, and the images."""
    words = [
        f"method={method}", "data=fashion_mnist", f"seed={seed}", "probes=none", "~callbacks.pictures",
        "callbacks.checkpoint.every_n_epochs=null", "trainer.accelerator=cpu", "trainer.max_epochs=1000",
        f"optimizer.lr_schedule.warmup_epochs={WARMUP}", *EQUAL[method],
    ]  # fmt: skip
    cfg = spt.compose(*words, f"hydra.run.dir={folder / 'start'}")
    run = prepare(cfg)
    points = [Progress(point, POINTS, POINTS) for point in range(POINTS)]
    networks, recipe = run.module.method.networks, run.module.recipe
    backbone = networks.backbone.recipe()
    task = {
        "method": method, "seed": seed, "seconds": 60 * arguments.minutes, "points": POINTS, "words": words,
        "augments": arguments.augments,
        "config": OmegaConf.to_container(cfg, resolve=True),
        "lr": [recipe.lr_schedule(point) for point in points],
        "weight_decay": [recipe.weight_decay_schedule(point) for point in points],
        "momentum": [networks.momentum(point) for point in points] if networks.momentum is not None else [],
        "evaluates": run.module.method.evaluates, "num_global_views": run.module.views.num_global_views,
        "backbone": {"name": backbone.name, "arguments": backbone.arguments},
    }  # fmt: skip
    (folder / "task.json").write_text(json.dumps(task))
    torch.save(networks.backbone.network.state_dict(), folder / "start.pt")
    torch.save(_images(run, arguments.bank), folder / "images.pt")
    return task


def _images(run: Run, bank: int) -> dict[str, Tensor]:
    """[N, 28, 28], uint8: those to train on, and the first of them followed by the test images; and the labels."""
    train, val = run.data.splits.train, run.data.splits.val
    assert isinstance(train, MemoryImages)
    assert isinstance(val, MemoryImages)
    evaluated = torch.cat([train.images[:bank, 0], val.images[:, 0]])
    labels = torch.cat([train.labels[:bank], val.labels])
    images = train.images[:, 0].contiguous()
    return {"train": images, "train_labels": train.labels, "evaluated": evaluated, "labels": labels}


def _scores(folder: Path, who: str, bank: int) -> tuple[dict[str, float], dict[str, float]]:
    """k-NN top-1 of each network before and after training."""
    found: dict[str, dict[str, Tensor]] = torch.load(folder / f"{who}.pt")
    labels = torch.load(folder / "images.pt")["labels"]
    knn = spt.compose("data=fashion_mnist").probes.knn

    def score(rows: Tensor) -> float:
        scores = knn_predict(
            rows[:bank], bank_labels=labels[:bank], queries=rows[bank:], k=knn.k, temperature=knn.temperature,
            num_classes=knn.num_classes,
        )  # fmt: skip
        return top1(scores, labels[bank:])

    before, after = ({name: score(rows) for name, rows in found[when].items()} for when in ("before", "after"))
    return before, after


def _row(method: str, name: str, trained: list[Trained]) -> dict[str, Cell]:
    """Means over seeds."""
    row: dict[str, Cell] = {
        "method": method,
        "library": name,
        "untrained": mean(one.before["student"] for one in trained),
        "evaluated": trained[0].evaluated,
    }
    for network in ("student", "teacher"):
        values = [one.after[network] for one in trained if network in one.after]
        row[network] = mean(values) if values else ""
        row[f"+- {network}"] = stdev(values) if len(values) > 1 else ""
    row["steps"] = round(mean(one.steps for one in trained))
    row["images/s"] = mean(one.images / one.processor for one in trained)
    row["minutes"] = mean(one.processor for one in trained) / 60
    row["by the clock"] = mean(one.clock for one in trained) / 60
    row["each seed"] = " ".join("/".join(f"{value:.4f}" for value in one.after.values()) for one in trained)
    return row


if __name__ == "__main__":
    main()
