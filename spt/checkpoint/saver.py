"""When checkpoints are written, and which are kept."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from torch import Tensor

from spt.checkpoint.background import BackgroundWriter
from spt.checkpoint.folder import SUFFIX, complete_checkpoints, name_of, point
from spt.checkpoint.portable import Portable
from spt.checkpoint.writing import finish_writing
from spt.config.errors import ConfigError
from spt.reporting.atomic import write_text
from spt.reporting.record import latest_metrics

INDEX = "index.json"
"""In the checkpoints folder: step, epoch and metrics of every checkpoint that is kept."""

BEST = f"best{SUFFIX}"


class Checkpoints(Checkpoint):
    """Writes checkpoints into a folder, and removes those that are neither among the newest nor among the best.

    One is written at the end of an epoch, every few optimizer steps, at the end of training, and when the run is told
    to stop. last.ckpt is a link to the newest complete one; best.ckpt to the best one, if the best are kept.

    Args:
        folder: where checkpoints go.
        every_n_epochs: passes over the data between checkpoints; None writes none for the end of an epoch.
        every_n_steps: optimizer steps between checkpoints; None leaves it to epochs.
        keep_last: newest checkpoints that are kept; -1 for all.
        keep_best: best checkpoints that are kept as well; they are judged when they are written.
        monitor: the metric that says which is best, "stage/name"; needed to keep the best.
        mode: whether a good value of it is high or low.
        in_background: files are copied in host memory and written while training goes on; a folder of shards, which
            needs all processes, is always waited for.

    Raises:
        ConfigError: nothing would be kept, or nothing says what is best.
    """

    def __init__(
        self, *, folder: str, every_n_epochs: int | None, every_n_steps: int | None, keep_last: int, keep_best: int,
        monitor: str | None, mode: Literal["max", "min"], in_background: bool,
    ) -> None:  # fmt: skip
        if keep_last == 0 or keep_last < -1:
            raise ConfigError(
                f"callbacks.checkpoint.keep_last={keep_last} would keep no checkpoint to go on from; "
                "use callbacks.checkpoint.keep_last=1, or -1 for all."
            )
        if keep_best and monitor is None:
            raise ConfigError(
                f"callbacks.checkpoint.keep_best={keep_best} needs to know what is best; "
                "use callbacks.checkpoint.monitor=val/knn_top1, or another metric of metrics.csv."
            )
        self.folder = Path(folder)
        self.every_n_epochs = every_n_epochs
        self.every_n_steps = every_n_steps
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.monitor = monitor
        self.mode = mode
        self.in_background = in_background
        self._writer: BackgroundWriter | None = None
        self._latest = self.folder
        self._step = -1
        self._evaluated_step = -1
        self._loops_before_evaluation: dict[str, object] | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Gives the strategy its writer."""
        strategy = trainer.strategy
        if self.in_background and isinstance(strategy, Portable) and strategy.checkpoint_layout == "file":
            self._writer = strategy.background_writer = BackgroundWriter()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The last one is on disk when training is over."""
        self._finish()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Sets the clock that tells micro-batches from steps."""
        self._step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Tensor | object, batch: object, batch_idx: int
    ) -> None:
        """Within an epoch. After its last step the evaluation comes first, which belongs to the same weights."""
        stepped, self._step = trainer.global_step != self._step, trainer.global_step
        if stepped and not trainer.is_last_batch and (self._is_due_by_step(trainer) or _is_through(trainer)):
            self._begin(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remembers where training stood: a checkpoint from within an evaluation starts it again."""
        if not trainer.sanity_checking and trainer.state.fn == "fit":
            self._loops_before_evaluation = copy.deepcopy(trainer.fit_loop.state_dict())

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Metrics are those of these weights now."""
        self._loops_before_evaluation = None
        if not trainer.sanity_checking:
            self._evaluated_step = trainer.global_step

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After the evaluation of an epoch."""
        by_epoch = self.every_n_epochs is not None and (trainer.current_epoch + 1) % self.every_n_epochs == 0
        is_whole = trainer.is_last_batch  # an epoch that max_steps cut short is saved by its last step
        if is_whole and (by_epoch or self._is_due_by_step(trainer) or _is_through(trainer)):
            self._begin(trainer)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, object]) -> None:
        """Puts counters back to where they were before an evaluation that is under way."""
        if self._loops_before_evaluation is not None:
            loops = cast("dict[str, object]", checkpoint["loops"])
            loops["fit_loop"] = _before_evaluation(self._loops_before_evaluation)

    def save(self, trainer: Trainer) -> None:
        """Writes a checkpoint, then drops what need not be kept; called by all processes. It is on disk afterwards.

        Raises:
            CheckpointError: it could not be written; those before it are untouched.
            ConfigError: the monitored metric is not logged.
        """
        self._begin(trainer)
        self._finish()

    def _begin(self, trainer: Trainer) -> None:
        """Saves, in the background if there is a writer: then the one before must have ended well."""
        self._finish()
        if not trainer.is_last_batch:
            # within an epoch, the row of this step's metrics first: a run that goes on from here will not write it
            trainer._logger_connector.update_train_step_metrics()
        path = self._latest = self.folder / name_of(trainer.global_step)
        trainer.save_checkpoint(path)
        entries = self._entries(trainer, path)
        if trainer.is_global_zero:
            if self._writer is None:
                self._publish(trainer, path, entries)
            else:
                self._writer.hand_over(lambda: self._publish(trainer, path, entries))
        trainer.strategy.barrier("Checkpoints.save")

    def _finish(self) -> None:
        if self._writer is not None:
            finish_writing(self._writer, self._latest)

    def _publish(self, trainer: Trainer, path: Path, entries: dict[str, dict[str, object]]) -> None:
        """Makes last.ckpt lead to the new checkpoint, and drops old ones; on the first process."""
        point(path)
        self._prune(trainer, entries)

    def _is_due_by_step(self, trainer: Trainer) -> bool:
        return self.every_n_steps is not None and trainer.global_step % self.every_n_steps == 0

    def _entries(self, trainer: Trainer, path: Path) -> dict[str, dict[str, object]]:
        """What is known of every checkpoint, the new one included."""
        metrics = {name: float(value) for name, value in latest_metrics(trainer, trainer.lightning_module).items()}
        names = sorted(metrics)
        if self._evaluated_step != trainer.global_step:
            metrics = {name: value for name, value in metrics.items() if name.startswith("train/")}
        is_known = self.monitor is None or self.monitor in names
        may_come = self._evaluated_step < 0 and bool(trainer.limit_val_batches)  # with the first evaluation
        if not is_known and not may_come:
            raise ConfigError(
                f"callbacks.checkpoint.monitor={self.monitor} is not logged by this run; it logs {', '.join(names)}."
            )
        entries = read_index(self.folder)
        entries[path.name] = {"step": trainer.global_step, "epoch": trainer.current_epoch, "metrics": metrics}
        return entries

    def _prune(self, trainer: Trainer, entries: dict[str, dict[str, object]]) -> None:
        present = [path.name for path in complete_checkpoints(self.folder).values()]
        kept = set(present if self.keep_last == -1 else present[-self.keep_last :])
        best = self._best([name for name in present if name in entries], entries)
        kept.update(best)
        if best:
            point(self.folder / best[0], BEST)
        index = {name: entries[name] for name in present if name in kept and name in entries}
        write_text(self.folder / INDEX, json.dumps({"checkpoints": index}, indent=2) + "\n")
        for name in present:
            if name not in kept:
                trainer.strategy.remove_checkpoint(self.folder / name)

    def _best(self, names: list[str], entries: Mapping[str, Mapping[str, object]]) -> list[str]:
        """The best ones, best first; of equals the earlier."""
        if not self.keep_best:
            return []
        values = {name: cast("Mapping[str, float]", entries[name]["metrics"]).get(str(self.monitor)) for name in names}
        judged = {name: value for name, value in values.items() if value is not None}
        sign = -1.0 if self.mode == "max" else 1.0
        return sorted(judged, key=lambda name: sign * judged[name])[: self.keep_best]


def read_index(folder: Path) -> dict[str, dict[str, object]]:
    """What is known of the checkpoints in a folder, by name; empty without an index."""
    file = folder / INDEX
    if not file.is_file():
        return {}
    content: dict[str, dict[str, object]] = json.loads(file.read_text(encoding="utf-8"))["checkpoints"]
    return content


def _is_through(trainer: Trainer) -> bool:
    return bool(trainer.global_step >= trainer.estimated_stepping_batches)


def _before_evaluation(loops: Mapping[str, object]) -> dict[str, object]:
    """Counters with which Lightning begins the evaluation anew: those of one broken off in its first batch."""
    changed = copy.deepcopy(dict(loops))
    progress = cast("dict[str, dict[str, int]]", changed["epoch_loop.val_loop.batch_progress"])
    progress["total"].update(ready=1, started=1, processed=0, completed=0)
    progress["current"].update(ready=0, started=0, processed=0, completed=0)
    return changed
