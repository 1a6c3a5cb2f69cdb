from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest
from lightning import Callback

from spt.callbacks.progress import EpochLines, TerminalBar, progress_display
from spt.callbacks.throughput import Throughput
from spt.probes.knn import KNNProbe
from spt.reporting.quiet import quiet
from tests.callbacks.tiny import NUM_CLASSES, TinyModule, fit


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quiet()


class Terminal(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def measured() -> list[Callback]:
    return [Throughput(log_every_n_steps=1), KNNProbe(k=3, temperature=0.1, num_classes=NUM_CLASSES)]


def epoch_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "spt.callbacks.progress"]


def test_a_file_gets_one_line_an_epoch_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    display = progress_display(refresh_rate=2)
    assert isinstance(display, EpochLines)
    with caplog.at_level(logging.INFO):
        fit(TinyModule(), tmp_path, [display, *measured()], max_epochs=3, shows_progress=True)
    lines = epoch_lines(caplog)
    assert [line.split("  ")[:2] for line in lines] == [
        ["epoch 1/3", "step 4/12"],
        ["epoch 2/3", "step 8/12"],
        ["epoch 3/3", "step 12/12"],
    ]
    assert all("loss " in line and "images/s " in line and "knn " in line for line in lines)
    assert capfd.readouterr().err == ""


def test_a_terminal_gets_a_bar_with_loss_speed_and_accuracy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    display = progress_display(refresh_rate=1)
    assert isinstance(display, TerminalBar)
    with caplog.at_level(logging.INFO):
        fit(TinyModule(), tmp_path, [*measured(), display], max_epochs=2, shows_progress=True)
    frames = terminal.getvalue().split("\r")
    training = [frame for frame in frames if "Epoch 1" in frame and "loss=" in frame]
    assert training
    assert all("images/s=" in frame and "knn=" in frame for frame in training)
    assert any("Untrained network" in frame for frame in frames)
    assert len(epoch_lines(caplog)) == 2
