"""What all benchmarks share: measuring in turns, a table, and a JSON file.

Contestants run in turns, round by round, so that whatever else a machine does meets all of them alike; a benchmark
compares medians over rounds. Beside the clock, the time of this process on all processors is taken: on a machine
that others use too it says more than the clock, as long as threads do not wait busily for each other.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

FOLDER = Path("runs") / "benchmarks"
Cell = str | float | int


class Lap(NamedTuple):
    """How long one round of one contestant took.

    Attributes:
        clock: seconds on the clock, a step.
        processor: seconds of this process on all processors, a step.
    """

    clock: float
    processor: float


class Stopwatch:
    """Started when it is made."""

    def __init__(self) -> None:
        self._clock, self._processor = time.perf_counter(), time.process_time()

    def lap(self, steps: int) -> Lap:
        """What has passed since the start, a step."""
        return Lap((time.perf_counter() - self._clock) / steps, (time.process_time() - self._processor) / steps)


def take_turns(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int, steps: int, warmup: int = 1
) -> dict[str, list[Lap]]:
    """The laps of every contestant.

    Args:
        contestants: one step of each, by name.
        rounds: laps of each.
        steps: steps in a lap.
        warmup: steps of each before the first round, not measured.
    """
    for step in contestants.values():
        for _ in range(warmup):
            step()
    laps: dict[str, list[Lap]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, step in contestants.items():
            watch = Stopwatch()
            for _ in range(steps):
                step()
            laps[name].append(watch.lap(steps))
    return laps


def middle(laps: Iterable[Lap]) -> Lap:
    """Medians."""
    clock, processor = zip(*laps, strict=True)
    return Lap(median(clock), median(processor))


def ratio(laps: Sequence[Lap], to: Sequence[Lap]) -> Lap:
    """Medians over rounds of the quotients of the laps of one round: neighbours in time, so that load cancels."""
    return middle(Lap(a.clock / b.clock, a.processor / b.processor) for a, b in zip(laps, to, strict=True))


def machine() -> dict[str, Cell]:
    """Where and when, for a reader of the numbers."""
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def report(name: str, title: str, rows: Sequence[Mapping[str, Cell]]) -> None:
    """Prints rows as a table under a title, and writes them to runs/benchmarks/<name>.json with the machine's facts."""
    facts = machine()
    print(title)
    print("  ".join(f"{key} {value}" for key, value in facts.items()))
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns, *([_text(row.get(column, "")) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps({"title": title, "machine": facts, "rows": list(rows)}, indent=1) + "\n")
    print(f"written to {path}", flush=True)


def _text(cell: Cell) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
