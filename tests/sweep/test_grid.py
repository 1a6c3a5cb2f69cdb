"""A grid in a folder that has seen one before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from spt.config.errors import ConfigError
from spt.config.sweep import read_settings
from spt.sweep.grid import GridSweeper
from spt.sweep.report import ExitStatus
from tests.sweep.desk import Desk, Ending


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str, failing: str = "none") -> list[str]:
    """The seeds that a command has launched; the job with the seed `failing` fails."""
    monkeypatch.setattr("sys.argv", ["train.py", "-m", "data=fake", *words])
    config = OmegaConf.create({"hydra": {"sweep": {"dir": str(folder)}}})
    sweeper = GridSweeper(None)
    desk = Desk(folder, lambda values: Ending("failed" if values["seed"] == failing else "completed", {}))
    sweeper.whole, sweeper.launcher = config, desk
    assert read_settings(config).metrics == []
    sweeper.sweep([])
    return [word.partition("=")[2] for job in desk.launched for word in job if word.startswith("seed=")]


def exit_status(folder: Path) -> int:
    try:
        ExitStatus().on_multirun_end(OmegaConf.create({"hydra": {"sweep": {"dir": str(folder)}}}))
    except SystemExit as end:
        return int(str(end.code))
    return 0


def test_only_what_is_not_complete_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path, monkeypatch, "seed=1,2,3", failing="2") == ["1", "2", "3"]
    assert exit_status(tmp_path) == 1
    assert run(tmp_path, monkeypatch, "seed=1,2,3") == ["2"]
    assert exit_status(tmp_path) == 0
    assert run(tmp_path, monkeypatch, "seed=1,2,3") == []


def test_a_sweep_that_grows_runs_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, monkeypatch, "seed=1,2")
    assert run(tmp_path, monkeypatch, "seed=0,1,2", "sweep.parallel=4") == ["0"]
    rows = json.loads((tmp_path / "summary.json").read_text())["jobs"]
    assert [(row["overrides"][1], Path(row["folder"]).name) for row in rows] == [
        ("seed=0", "2"), ("seed=1", "0"), ("seed=2", "1")
    ]  # fmt: skip


def test_other_values_of_what_is_not_swept_are_other_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, monkeypatch, "seed=1,2")
    assert run(tmp_path, monkeypatch, "seed=1,2", "trainer.max_epochs=30") == ["1", "2"]


def test_failures_of_an_earlier_command_do_not_fail_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, monkeypatch, "seed=1,2", failing="2")
    run(tmp_path, monkeypatch, "seed=1,3")
    assert exit_status(tmp_path) == 0
    assert "failed" in (tmp_path / "summary.csv").read_text()  # but they stay in the summary


def test_refused_jobs_have_no_folder_and_do_not_fail_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        run(tmp_path, monkeypatch, "seed=-1,1")
    assert run(tmp_path, monkeypatch, "seed=-1,1", "sweep.on_refused=skip") == ["1"]
    assert exit_status(tmp_path) == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["0"]
    assert "seed" in (tmp_path / "summary.md").read_text()
