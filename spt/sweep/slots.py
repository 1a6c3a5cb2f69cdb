"""The machine divided among jobs that run at a time."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from spt.config.machine import count_gpus


class Slot(NamedTuple):
    """Devices of one job; empty for all that the sweep has.

    Attributes:
        gpus: as CUDA_VISIBLE_DEVICES names them.
        cores: numbers of processor cores.
    """

    gpus: tuple[str, ...]
    cores: tuple[int, ...]


def divide(parallel: int) -> list[Slot]:
    """As many slots as jobs run at a time, with equally many GPUs and cores each, none in two slots.

    Where there are more jobs than cores, cores are shared.
    """
    if parallel == 1:
        return [Slot((), ())]
    gpus, cores = _gpus(), _cores()
    share, rest = len(gpus) // parallel, len(cores) // parallel
    return [
        Slot(
            tuple(gpus[slot * share : (slot + 1) * share]),
            tuple(cores[slot * rest : (slot + 1) * rest] if rest else cores[slot % len(cores) :][:1]) if cores else (),
        )
        for slot in range(parallel)
    ]


def _gpus() -> list[str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(i) for i in range(count_gpus())] if visible is None else [word.strip() for word in visible.split(",")]
    return names[: count_gpus()]


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
