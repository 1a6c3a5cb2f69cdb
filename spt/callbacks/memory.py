"""How much memory training takes."""

from __future__ import annotations

import resource
import sys

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from spt.reporting.record import pretraining
from spt.types import Sample

_GIB = 2**30
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes that getrusage counts in


class Memory(Callback):
    """system/memory_gib: the most memory that rank 0 has held so far.

    On CUDA what tensors took on its device; else the process's resident set, without its data workers.
    """

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Tensor | object, batch: Sample, batch_idx: int
    ) -> None:
        """Logs the peak so far; nothing waits for the device."""
        pretraining(pl_module).note({"system/memory_gib": peak_memory(pl_module.device) / _GIB})


def peak_memory(device: torch.device) -> int:
    """Bytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
