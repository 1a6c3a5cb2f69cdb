"""One process, one device."""

from __future__ import annotations

import torch
from lightning.pytorch.strategies import SingleDeviceStrategy

from spt.checkpoint.portable import Portable


class SingleStrategy(Portable, SingleDeviceStrategy):
    """Lightning's strategy for one device, on the device that trainer.accelerator and trainer.devices name.

    Attributes:
        parallel_devices: filled by Lightning's Trainer.
    """

    parallel_devices: list[torch.device] | None = None

    def __init__(self) -> None:
        super().__init__()

    @property
    def root_device(self) -> torch.device:
        """The first of the devices."""
        return self.parallel_devices[0] if self.parallel_devices else torch.device("cpu")
