"""Small whole runs in processes of their own that are killed, or told to stop, at a chosen moment."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

import spt.run
from spt.checkpoint.reading import Stored, open_checkpoint
from spt.config.errors import ConfigError
from spt.launch.folder import taken
from spt.reporting.metrics_file import read_metrics
from spt.run import prepare
from tests.runs import compose

SECONDS = 60


class Moment(NamedTuple):
    """When something happens to a run.

    Attributes:
        event: a hook of training (train_batch, after_backward, validation_batch), or a call that saving makes: write,
            fsync, replace, unlink.
        count: which of these events, from 1; 0 for never.
        number: the signal that the run sends itself.
    """

    event: str
    count: int
    number: int = signal.SIGKILL


NEVER = Moment("", 0)


class Alarm(Callback):
    """Counts events and sends this process a signal at the chosen one."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self.counts: dict[str, int] = {}

    def note(self, event: str) -> None:
        """One more of them."""
        self.counts[event] = self.counts.get(event, 0) + 1
        if (event, self.counts[event]) == self.moment[:2]:
            os.kill(os.getpid(), self.moment.number)

    def on_train_batch_start(self, *_: object) -> None:
        self.note("train_batch")

    def on_after_backward(self, *_: object) -> None:
        self.note("after_backward")

    def on_validation_batch_end(self, trainer: Trainer, *_: object, **__: object) -> None:
        if not trainer.sanity_checking:
            self.note("validation_batch")

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Saving has no hooks: what it calls of the system is counted instead."""
        for owner, name in ((os, "fsync"), (os, "replace"), (os, "unlink")):
            self._count(owner, name)
        whole_save = torch.save

        def save(content: object, file: object) -> None:
            class Counted:
                def write(_, data: bytes) -> int:  # noqa: N805
                    self.note("write")
                    return file.write(data)  # type: ignore[attr-defined, no-any-return]

                def flush(_) -> None:  # noqa: N805
                    file.flush()  # type: ignore[attr-defined]

            whole_save(content, Counted())  # type: ignore[arg-type]

        torch.save = save  # type: ignore[assignment]  # in a process that ends with the run

    def _count(self, owner: object, name: str) -> None:
        inner: Callable[..., object] = getattr(owner, name)

        def counted(*arguments: object, **options: object) -> object:
            self.note(name)
            return inner(*arguments, **options)

        setattr(owner, name, counted)


def run_in_child(folder: Path, words: tuple[str, ...], moment: Moment) -> None:
    """The whole run, in this process; it ends as the command would."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    file = (folder.parent / f"{folder.name}.out").open("a")
    sys.stdout = sys.stderr = file
    alarm = Alarm(moment)
    spt.run.plot_curves = lambda folder: None  # half of the time of such a run
    try:
        with taken(folder):
            whole = prepare(compose("simclr", folder, *words))
            whole.trainer.callbacks.insert(0, alarm)  # type: ignore[attr-defined]
            whole.fit()
    except ConfigError as error:
        file.write(str(error))
        raise SystemExit(2) from None
    if not moment.count:
        (folder.parent / f"{folder.name}.events").write_text(repr(alarm.counts))


def run(folder: Path, *words: str, moment: Moment = NEVER) -> int:
    """The exit code of a run in a process of its own; negative for a signal that killed it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.checkpoint.victims"])
    process = context.Process(target=run_in_child, args=(folder, words, moment))
    process.start()
    process.join(SECONDS)
    assert process.exitcode is not None, "the run did not end"
    return process.exitcode


class Remains(NamedTuple):
    """What a run leaves.

    Attributes:
        tensors: of its last checkpoint: weights and optimizer state.
        probes: state of callbacks.
        rows: of metrics.csv, without what depends on the clock.
    """

    tensors: dict[str, Tensor]
    probes: object
    rows: list[dict[str, float]]


def remains(folder: Path) -> Remains:
    """Of a run that is through."""
    stored: Stored = open_checkpoint(folder / "checkpoints" / "last.ckpt")
    rows = [
        {
            name: value
            for name, value in row.items()
            if name not in ("train/images_per_second", "train/data_wait", "system/memory_gib")
        }
        for row in read_metrics(folder / "metrics.csv")
    ]
    return Remains(stored.read(stored.tensors), stored.rest["callbacks"], rows)


def events_of(folder: Path) -> dict[str, int]:
    """How many of each there were in a run without a signal."""
    counts: dict[str, int] = eval((folder.parent / f"{folder.name}.events").read_text())  # written above
    return counts
