"""Signals that ask a run to stop: the step is finished, a checkpoint written, and then the process ends."""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Protocol, cast, runtime_checkable

from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from spt.distributed.gather import is_on_any_rank
from spt.types import Sample

logger = logging.getLogger(__name__)

ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""Preemption, Ctrl-C, and what SLURM is told to send before its time limit (--signal=USR1@120)."""


class Preempted(SystemExit):
    """A run that was told to stop, and has. Its code is 128 + the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)


class StopSignals:
    """Hears the signals. Training ends at its next step; before training has begun, the first signal ends it at once.

    A second Ctrl-C ends it at once too.

    Attributes:
        number: of the first signal heard.
        can_wait: training is under way, and looks at `number` after every step.
        is_over: the run is ending because of one; further ones change nothing.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.can_wait = False
        self.is_over = False
        self._owner = os.getpid()
        self._before: dict[int, object] = {}

    def __enter__(self) -> StopSignals:
        """Listens until the end of the block; in the main thread only, where Python runs handlers."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in ASKING}
            self.listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Puts the handlers of before back."""
        for number, handler in self._before.items():
            signal.signal(number, cast("signal.Handlers", handler))

    def listen(self) -> None:
        """Takes the signals over, also from Lightning, which sets a handler of its own as training begins."""
        if self._before:
            for number in ASKING:
                signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._owner:
            os._exit(128 + number)  # a data worker, forked with this handler
        if self.is_over:
            return
        is_repeated = self.number is not None
        self.number = number if self.number is None else self.number
        if not self.can_wait or (is_repeated and number == signal.SIGINT):
            self.is_over = True
            raise Preempted(number)
        if not is_repeated:
            logger.info("%s: stopping after this step, with a checkpoint.", signal.Signals(number).name)


@runtime_checkable
class Saves(Protocol):
    """A callback that writes checkpoints."""

    def save(self, trainer: Trainer) -> None:
        """Writes one now; called by all processes."""


class Stoppable(Protocol):
    """What is read of the module being trained.

    Attributes:
        stop_requested: set here; this process was asked to stop.
        stop_agreed: at least one process had been when the latest micro-batch began: the same on all.
    """

    stop_requested: bool
    stop_agreed: bool


class Stop(Callback):
    """Ends training in order once a process has been asked to: on all processes at the same place.

    Between two optimizer steps within an epoch; or in the evaluation after the last step of one, which a resumed run
    then does again from its beginning.

    Args:
        signals: heard in this process.
    """

    def __init__(self, signals: StopSignals) -> None:
        self.signals = signals
        self._step = -1

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning has set its own handler just before."""
        self.signals.listen()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """From here on a signal waits for the end of the step."""
        self.signals.listen()
        self._step = trainer.global_step
        self.signals.can_wait = True
        if self.signals.number is not None:
            raise Preempted(self.signals.number)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Sample, batch_idx: int) -> None:
        """Tells the module, which tells the other processes along with the loss."""
        cast(Stoppable, pl_module).stop_requested = self.signals.number is not None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Tensor | object, batch: Sample, batch_idx: int
    ) -> None:
        """After an optimizer step that is not the last of its epoch."""
        stepped, self._step = trainer.global_step != self._step, trainer.global_step
        if stepped and cast(Stoppable, pl_module).stop_agreed and not trainer.is_last_batch:
            self._end(trainer)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Sample, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Between the batches of an evaluation."""
        if self.signals.can_wait and self._anyone(trainer):
            self._end(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After the evaluation, before the next epoch; a run that is through ends by itself."""
        if self._anyone(trainer) and trainer.global_step < trainer.estimated_stepping_batches:
            self._end(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """All is saved: what follows can be left at once."""
        self.signals.can_wait = False

    def _anyone(self, trainer: Trainer) -> bool:
        return is_on_any_rank(self.signals.number is not None, trainer.strategy.root_device)

    def _end(self, trainer: Trainer) -> None:
        for callback in trainer.checkpoint_callbacks:
            if isinstance(callback, Saves):
                callback.save(trainer)
        self.signals.is_over = True
        raise Preempted(self.signals.number or signal.SIGTERM)  # another process was asked
