"""Schedules: pure functions of the optimizer step.

`step` counts optimizer steps from 0. The published codes count in three ways, and one step off is another schedule:

    from_zero   step k uses point k of the curve, so it starts at `start` and never quite reaches `end`:
                SimCLR, BYOL, DINO's momentum.
    from_one    step k uses point k + 1, because the counter moves before it is read, so the last step is at `end`:
                I-JEPA.
    inclusive   warm-up is np.linspace(start, peak, n), both ends included, so that its last step and the one after
                it are at the peak; what follows counts from zero: DINO's learning rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from spt.types import Progress


class Schedule(Protocol):
    """A number for every optimizer step."""

    def __call__(self, progress: Progress) -> float:
        """The value that the step `progress.step` uses."""
        ...


def half_cosine(start: float, end: float, share: float) -> float:
    """From `start` at share 0 to `end` at share 1 along half a period of the cosine."""
    return end + 0.5 * (start - end) * (1.0 + math.cos(math.pi * share))


def _point(progress: Progress, counting: str) -> int:
    return progress.step + 1 if counting == "from_one" else progress.step


@dataclass(frozen=True)
class Linear:
    """A straight line over the whole run, as I-JEPA's teacher momentum (src/train.py:228)."""

    start: float
    end: float
    counting: Literal["from_zero", "from_one"]

    def __call__(self, progress: Progress) -> float:
        """The value at this step."""
        return self.start + (self.end - self.start) * _point(progress, self.counting) / progress.total_steps


@dataclass(frozen=True)
class Cosine:
    """Half a cosine over the whole run, without warm-up.

    With counting from zero it is DINO's momentum and weight decay (utils.py:187) and BYOL's
    tau = 1 - (1 - tau_0)(cos(pi k / K) + 1) / 2 (arXiv 2006.07733, section 3.2); from one, I-JEPA's weight decay.
    """

    start: float
    end: float
    counting: Literal["from_zero", "from_one"]

    def __call__(self, progress: Progress) -> float:
        """The value at this step."""
        return half_cosine(self.start, self.end, _point(progress, self.counting) / progress.total_steps)


@dataclass(frozen=True)
class WarmupCosine:
    """A straight line from `start` to `peak`, then half a cosine to `end`: the learning rate of all four methods.

    Attributes:
        warmup_epochs: length of the line in passes over the data, rounded to whole optimizer steps; may be a fraction.
        counting: how the authors count; see the head of this file.
    """

    start: float
    peak: float
    end: float
    warmup_epochs: float
    counting: Literal["from_zero", "from_one", "inclusive"]

    def __call__(self, progress: Progress) -> float:
        """The value at this step."""
        warmup_steps = round(self.warmup_epochs * progress.steps_per_epoch)
        point = _point(progress, self.counting)
        if point < warmup_steps:
            last = max(warmup_steps - 1, 1) if self.counting == "inclusive" else warmup_steps
            return self.start + (self.peak - self.start) * point / last
        return half_cosine(self.peak, self.end, (point - warmup_steps) / max(progress.total_steps - warmup_steps, 1))


@dataclass(frozen=True)
class EpochWarmup:
    """Rises once an epoch from `start` to `end`, then stays: DINO's teacher temperature (main_dino.py:374).

    Epoch e < warmup_epochs has np.linspace(start, end, warmup_epochs)[e]. A run shorter than the warm-up ends on the
    way.
    """

    start: float
    end: float
    warmup_epochs: int

    def __call__(self, progress: Progress) -> float:
        """The value in this step's epoch."""
        if progress.epoch >= self.warmup_epochs:
            return self.end
        return self.start + (self.end - self.start) * progress.epoch / max(self.warmup_epochs - 1, 1)
