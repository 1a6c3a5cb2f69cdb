"""Every process holds all weights; gradients are averaged."""

from __future__ import annotations

from datetime import timedelta
from inspect import signature

from lightning import Trainer
from lightning.pytorch.strategies import DDPStrategy as LightningDDPStrategy
from torch.nn.parallel import DistributedDataParallel

from spt.checkpoint.portable import Portable
from spt.distributed.replicas import average_running_statistics, copy_from_first

# torch 2.14 renamed the argument
_SYNC_BUFFERS = (
    "forward_sync_buffers"
    if "forward_sync_buffers" in signature(DistributedDataParallel).parameters
    else "broadcast_buffers"
)


class DDPStrategy(Portable, LightningDDPStrategy):
    """Lightning's DDPStrategy, with buffers under our own policy.

    Buffers start as the first process's and then belong to each process: torch would overwrite them by the first
    process's at every forward, and with them the sums that a loss collects over micro-batches. Running statistics of
    BatchNorm are averaged before they are read, by evaluation and by checkpoints. The teacher has no gradient and is
    left alone.

    Args:
        find_unused_parameters: True looks for parameters without gradient at every step.
        gradient_as_bucket_view: True keeps gradients in the buffers that are sent.
        bucket_cap_mb: MiB of gradients sent together.
        timeout_seconds: longest wait for another process.

    Paper: PyTorch Distributed, arXiv 2006.15704.
    """

    def __init__(
        self, *, find_unused_parameters: bool, gradient_as_bucket_view: bool, bucket_cap_mb: float,
        timeout_seconds: float,
    ) -> None:  # fmt: skip
        super().__init__(
            find_unused_parameters=find_unused_parameters,
            gradient_as_bucket_view=gradient_as_bucket_view,
            bucket_cap_mb=bucket_cap_mb,
            timeout=timedelta(seconds=timeout_seconds),
            **{_SYNC_BUFFERS: False},  # type: ignore[arg-type]  # one of the arguments that go on to torch
        )

    def setup(self, trainer: Trainer) -> None:
        """Lightning's, with all processes starting alike."""
        assert self.model is not None
        copy_from_first(self.model, self.root_device)
        super().setup(trainer)

    def on_validation_start(self) -> None:
        """Makes evaluation independent of which process sees an image."""
        assert self.lightning_module is not None
        average_running_statistics(self.lightning_module)
