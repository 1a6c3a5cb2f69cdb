"""Processor time that a contestant of bench_accuracy.py may train in."""

from __future__ import annotations

import json
import sys
from typing import TextIO

from scripts.timing import Stopwatch


class Budget:
    """So much processor time of this process to train in, which begins when both contestants are ready.

    Args:
        answers: where to answer.
        seconds: of processor time.
    """

    def __init__(self, answers: TextIO, seconds: float) -> None:
        self.answers, self.seconds = answers, seconds
        self.watch = Stopwatch()

    def begin(self) -> None:
        """Waits for the other one."""
        print("ready", file=self.answers, flush=True)
        if not sys.stdin.readline():
            raise SystemExit
        self.watch = Stopwatch()

    @property
    def spent(self) -> float:
        """Share of it, up to 1."""
        return min(1.0, self.watch.lap(1).processor / self.seconds)

    def end(self, steps: int) -> None:
        """After the last step."""
        print(json.dumps([*self.watch.lap(1), steps]), file=self.answers, flush=True)
