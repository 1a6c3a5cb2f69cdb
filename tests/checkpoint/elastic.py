"""Trainings that are saved under one strategy and go on under another, to be run on every rank of a group."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple, cast

import torch
import torch.distributed as dist
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from spt.checkpoint.card import Card
from spt.checkpoint.state import Entry, optimizer_state
from spt.distributed.shards import full
from spt.reporting.quiet import quiet
from spt.types import Sample
from tests.strategies.cases import STEPS, Case, Losses, Outcome, build_data, build_module, build_trainer, whole_state

EPOCHS = 2
SAVED_AT = STEPS - 1  # within the first epoch


class Place(NamedTuple):
    """Where a training runs.

    Attributes:
        strategy: single | ddp | fsdp2.
        num_ranks: processes.
        layout: of its checkpoints.
        accumulation: micro-batches of an optimizer step.
    """

    strategy: str
    num_ranks: int
    layout: str = "file"
    accumulation: int = 1

    def __str__(self) -> str:
        words = [self.strategy, str(self.num_ranks)]
        words += [self.layout] if self.strategy == "fsdp2" else []
        return "-".join([*words, *([f"accumulation{self.accumulation}"] if self.accumulation > 1 else [])])


class Saver(Callback):
    """Saves after SAVED_AT steps."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        if trainer.global_step == SAVED_AT and not self.path.exists():
            trainer.save_checkpoint(self.path)


class Restored(Callback):
    """Keeps what was loaded, whole, before the first step."""

    def __init__(self) -> None:
        self.moments: dict[str, Tensor] = {}
        self.state: dict[str, Tensor] = {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.moments = moments(trainer)
        self.state = whole_state(pl_module.method)  # type: ignore[arg-type]


class Continued(NamedTuple):
    """A training that went on.

    Attributes:
        outcome: losses after the checkpoint, and the weights at the end.
        state: weights and buffers as loaded.
        moments: of the optimizer, as loaded.
    """

    outcome: Outcome
    state: dict[str, Tensor]
    moments: dict[str, Tensor]


def moments(trainer: Trainer) -> dict[str, Tensor]:
    """What the optimizer keeps, whole, by parameter and key."""
    (optimizer,) = trainer.optimizers
    entries = cast("dict[str, Entry]", optimizer_state(trainer.lightning_module, optimizer)["state"])
    return {
        f"{name}.{key}": full(torch.as_tensor(value)).detach().clone()
        for name, entry in entries.items()
        for key, value in entry.items()
    }


def case_of(method: str, rule: str, place: Place) -> Case:
    """The training of a method at a place."""
    options: dict[str, object] = (
        {"save_distributed_checkpoint": place.layout == "folder"} if place.strategy == "fsdp2" else {}
    )
    return Case(method, place.strategy, place.accumulation, rule=rule, options=options)


def path_of(folder: Path, method: str, rule: str, place: Place) -> Path:
    """Where its checkpoint lies."""
    return folder / f"{method}-{rule}-{place}.ckpt"


def train_and_save(folder: Path, method: str, rule: str, place: Place) -> Outcome:
    """The training without a stop; it leaves a checkpoint on its way."""
    return _fit(case_of(method, rule, place), folder, [Saver(path_of(folder, method, rule, place))], None)


def go_on(folder: Path, method: str, rule: str, source: Place, target: Place) -> Continued:
    """The training from its checkpoint on, at another place, with other weights to begin with."""
    restored = Restored()
    outcome = _fit(case_of(method, rule, target), folder, [restored], path_of(folder, method, rule, source))
    return Continued(outcome, restored.state, restored.moments)


def _fit(case: Case, folder: Path, callbacks: list[Callback], checkpoint: Path | None) -> Outcome:
    warnings.simplefilter("error")
    quiet()
    torch.manual_seed(dist.get_rank() if checkpoint is None else 77)
    losses = Losses()
    module = build_module(case)
    card = Card("", {}, {})
    trainer = build_trainer(case, folder, [losses, card, *callbacks], max_epochs=EPOCHS)
    trainer.fit(module, datamodule=build_data(), ckpt_path=checkpoint)
    return Outcome(losses.values, whole_state(module.method))


def save_all(folder: Path, work: list[tuple[str, str, Place]]) -> dict[tuple[str, str, Place], Outcome]:
    """One training after the other in one process group."""
    return {(method, rule, place): train_and_save(folder, method, rule, place) for method, rule, place in work}


def go_on_all(
    folder: Path, work: list[tuple[str, str, Place, Place]]
) -> dict[tuple[str, str, Place, Place], Continued]:
    """The same for trainings that go on."""
    return {item: go_on(folder, *item) for item in work}


class Trace(Callback):
    """Keeps the images of every micro-batch of this rank, by epoch."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[int]]] = []

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: Sample, batch_idx: int
    ) -> None:
        self.seen.append((int(batch.epochs[0]), batch.indices.tolist()))


def trace(folder: Path, place: Place, num_workers: int, *, resume: bool) -> list[tuple[int, list[int]]]:
    """What this rank sees of three epochs, or of what a checkpoint within the first of them leaves."""
    quiet()
    torch.set_num_threads(1)
    path, seen = path_of(folder, f"trace{num_workers}", "sgd", place), Trace()
    data = build_data()
    data.num_workers = num_workers
    callbacks = [seen, Card("", {}, {}), Saver(path)]
    trainer = build_trainer(case_of("simclr", "sgd", place), folder, callbacks, max_epochs=3)
    trainer.fit(build_module(case_of("simclr", "sgd", place)), datamodule=data, ckpt_path=path if resume else None)
    return seen.seen


def traces(
    folder: Path, place: Place, workers: tuple[int, ...]
) -> dict[int, tuple[list[tuple[int, list[int]]], list[tuple[int, list[int]]]]]:
    """By number of workers: an uninterrupted training, and one that goes on."""
    return {
        number: (trace(folder, place, number, resume=False), trace(folder, place, number, resume=True))
        for number in workers
    }
