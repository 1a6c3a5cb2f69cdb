"""Which rank's error is the cause, and which only its echo."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from spt.config.errors import ConfigError
from spt.launch.failures import FOLDER, first_failure, record_failure


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))


def record(monkeypatch: pytest.MonkeyPatch, rank: int, error: Exception) -> None:
    """The error as a rank writes it down, at its own time."""
    monkeypatch.setenv("RANK", str(rank))
    try:
        raise error
    except type(error) as raised:
        record_failure(raised)


def test_an_echo_that_was_written_first_is_not_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch, 0, RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]"))
    record(monkeypatch, 2, ZeroDivisionError("no images"))
    record(monkeypatch, 1, ValueError("later"))
    failure = first_failure(tmp_path, {0: 1, 1: 1, 2: 1})
    assert (failure.rank, failure.error) == (2, "ZeroDivisionError: no images")
    assert failure.text.startswith("Traceback")
    assert not failure.is_mistake


def test_a_killed_rank_is_the_cause_of_its_echoes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch, 0, RuntimeError("Connection reset by peer"))
    failure = first_failure(tmp_path, {0: 1, 1: -signal.SIGKILL, 2: -signal.SIGTERM})
    assert failure.rank == 1
    assert "was killed by SIGKILL" in failure.error
    assert "memory" in failure.text


def test_a_rank_that_crashed_shows_the_end_of_its_output(tmp_path: Path) -> None:
    file = tmp_path / "output" / "attempt_0" / "1" / "stderr.log"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(f"line {number}" for number in range(40)))
    text = first_failure(tmp_path, {1: -signal.SIGSEGV}).text
    assert "line 39" in text
    assert "line 19" not in text
    assert text.endswith("Rank 1 was killed by SIGSEGV.")


def test_a_mistake_of_the_user_keeps_its_text_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch, 1, ConfigError("data.x=1 cannot work.\n    try: data.x=2"))
    failure = first_failure(tmp_path, {1: 1})
    assert failure.is_mistake
    assert failure.text == "data.x=1 cannot work.\n    try: data.x=2"


def test_only_the_first_error_of_a_rank_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch, 1, ValueError("the cause"))
    record(monkeypatch, 1, ValueError("while cleaning up"))
    assert first_failure(tmp_path, {1: 1}).error == "ValueError: the cause"


def test_nothing_is_written_without_a_parent_that_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER)
    record(monkeypatch, 1, ValueError("the cause"))
    assert os.listdir(tmp_path) == []
