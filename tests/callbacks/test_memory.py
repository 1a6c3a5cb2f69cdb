from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from spt.callbacks.memory import Memory, peak_memory
from spt.reporting.metrics_file import MetricsFile, read_metrics
from spt.reporting.quiet import quiet
from tests.callbacks.tiny import TinyModule, fit

CPU = torch.device("cpu")


def test_the_peak_holds_what_the_process_has_and_stays(tmp_path: Path) -> None:
    before = peak_memory(CPU)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert before >= 0.9 * resident
    large = torch.ones(2**28)  # 1 GiB
    after = peak_memory(CPU)
    assert after >= resident + 0.9 * large.nbytes
    del large
    assert peak_memory(CPU) >= after


def test_every_row_of_metrics_has_it_in_gib(tmp_path: Path) -> None:
    quiet()
    fit(TinyModule(), tmp_path, [Memory()], loggers=[MetricsFile(tmp_path)], max_epochs=1)
    values = [row["system/memory_gib"] for row in read_metrics(tmp_path / "metrics.csv") if "train/loss" in row]
    assert len(values) == 4
    assert values[-1] == pytest.approx(peak_memory(CPU) / 2**30, rel=0.05)
    assert values == sorted(values)
