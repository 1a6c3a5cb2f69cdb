"""A run that is killed or told to stop, at any moment, goes on with the same command as if nothing had happened."""

from __future__ import annotations

import json
import signal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from spt.checkpoint.folder import complete_checkpoints
from tests.checkpoint.victims import Moment, Remains, remains, run

# two epochs of three steps, evaluated after each, saved after every step
WORDS = ("resume=auto", "callbacks.checkpoint.every_n_steps=1", "callbacks.checkpoint.keep_last=2")
FILE, FOLDER = (), ("strategy=fsdp2",)

_folder = TemporaryDirectory()  # until the tests of this process are over


@cache
def uninterrupted(strategy: tuple[str, ...]) -> Remains:
    """Of the run that nothing happens to."""
    folder = Path(_folder.name) / ("folder" if strategy else "file")
    assert run(folder, *WORDS, *strategy) == 0
    return remains(folder)


def assert_equal(ours: Remains, theirs: Remains) -> None:
    """Bit for bit, and row for row."""
    assert ours.tensors.keys() == theirs.tensors.keys()
    assert [name for name, value in ours.tensors.items() if not torch.equal(value, theirs.tensors[name])] == []
    assert ours.rows == theirs.rows
    assert repr(ours.probes) == repr(theirs.probes)


KILLS = [
    *(Moment("train_batch", count) for count in (1, 3, 4)),
    *(Moment("after_backward", count) for count in (2, 6)),
    *(Moment("validation_batch", count) for count in (1, 2, 4)),
    # the first checkpoint, one in the middle, the one after an evaluation
    *(Moment("write", count) for count in (1, 5, 200, 301)),
    *(Moment("fsync", count) for count in (1, 2, 4, 9)),
    *(Moment("replace", count) for count in (3, 4, 6, 12)),
    *(Moment("unlink", count) for count in (1, 4)),
]


@pytest.mark.parametrize("moment", KILLS, ids=lambda moment: f"{moment.event}{moment.count}")
def test_a_run_killed_at_any_moment_ends_as_if_it_had_not_been(tmp_path: Path, moment: Moment) -> None:
    assert run(tmp_path / "run", *WORDS, moment=moment) == -signal.SIGKILL
    assert run(tmp_path / "run", *WORDS) == 0
    assert_equal(remains(tmp_path / "run"), uninterrupted(FILE))
    left = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert left == ["index.json", "last.ckpt", "step00000005.ckpt", "step00000006.ckpt"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", KILLS, ids=lambda moment: f"{moment.event}{moment.count}")
def test_so_does_a_run_that_saves_folders(tmp_path: Path, moment: Moment) -> None:
    code = run(tmp_path / "run", *WORDS, *FOLDER, moment=moment)
    assert code in (-signal.SIGKILL, 0)  # there are fewer writes through Python's files
    assert run(tmp_path / "run", *WORDS, *FOLDER) == 0
    assert_equal(remains(tmp_path / "run"), uninterrupted(FOLDER))


STOPS = [
    Moment("train_batch", 2, signal.SIGTERM),
    Moment("train_batch", 3, signal.SIGTERM),  # the last of an epoch
    Moment("after_backward", 5, signal.SIGUSR1),
    Moment("validation_batch", 1, signal.SIGTERM),
    Moment("validation_batch", 3, signal.SIGTERM),
    Moment("validation_batch", 4, signal.SIGUSR1),
    Moment("write", 200, signal.SIGTERM),  # while saving
    Moment("fsync", 2, signal.SIGINT),
]


@pytest.mark.parametrize("moment", STOPS, ids=lambda moment: f"{moment.event}{moment.count}-{moment.number}")
def test_a_run_told_to_stop_saves_and_goes_on_as_if_it_had_not_been(tmp_path: Path, moment: Moment) -> None:
    folder = tmp_path / "run"
    assert run(folder, "resume=auto", moment=moment) == 128 + moment.number
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "preempted"
    assert list(complete_checkpoints(folder / "checkpoints")) == [summary["steps"]]
    assert run(folder, "resume=auto") == 0
    assert_equal(remains(folder), uninterrupted(FILE))
