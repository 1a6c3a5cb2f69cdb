"""Lightning's loop over the batches of an epoch, without the collective that it runs before every step."""

from __future__ import annotations

from lightning import Trainer
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop


class EpochLoop(_TrainingEpochLoop):
    """Leaves SIGTERM to spt.launch.stop, which tells the other processes along with the loss.

    Lightning broadcasts before every step whether the first process has heard the signal, and waits for the device.
    It does not let a user switch that off.
    """

    def _broadcast_sigterm_tensor(self) -> None:
        """Nothing: Lightning's own handler of the signal is not in place either."""


def replace_epoch_loop(trainer: Trainer) -> None:
    """Puts this loop in the place of Lightning's, before anything has run."""
    replaced = trainer.fit_loop.epoch_loop
    trainer.fit_loop.epoch_loop = EpochLoop(trainer, min_steps=replaced.min_steps, max_steps=replaced.max_steps)
