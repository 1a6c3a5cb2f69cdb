"""Reading numbers of a device without holding it up."""

from __future__ import annotations

import torch
from torch import Tensor


class HostCopy:
    """Numbers on their way from their device to the host.

    On a GPU the copy is queued behind the work that gives the numbers, and `read` waits for no more than that: what was
    queued since keeps the device busy meanwhile. Elsewhere nothing is copied.

    Args:
        values: [n], any floating type.
    """

    def __init__(self, values: Tensor) -> None:
        self._values = values
        self._is_there: torch.cuda.Event | None = None
        if values.device.type == "cuda":
            self._values = torch.empty_like(values, device="cpu", pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._is_there = torch.cuda.Event()
            self._is_there.record(torch.cuda.current_stream(values.device))

    def read(self) -> list[float]:
        """The n numbers."""
        if self._is_there is not None:
            self._is_there.synchronize()
        return self._values.tolist()
