"""A callback that goes wrong on one rank."""

from __future__ import annotations

import os
import signal
import time

from lightning import Callback, LightningModule, Trainer

from spt.config.errors import ConfigError


class Fault(Callback):
    """Fails on one rank when a step ends.

    Args:
        rank: the one that fails.
        step: after this many optimizer steps.
        kind: raise | refuse | kill | desert: raises while the others wait.
    """

    def __init__(self, rank: int, step: int, kind: str) -> None:
        self.rank, self.step, self.kind = rank, step, kind

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        if trainer.global_step != self.step:
            return
        if trainer.global_rank != self.rank:
            time.sleep(600 if self.kind == "desert" else 0)
            return
        if self.kind in ("raise", "desert"):
            raise ZeroDivisionError("a fault of this rank alone")
        if self.kind == "refuse":
            raise ConfigError("data.source.root=nowhere cannot be read.\n    try: data=fake")
        os.kill(os.getpid(), signal.SIGKILL)
