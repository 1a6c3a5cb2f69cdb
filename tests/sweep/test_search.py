"""A search looks at any metric, outlives failed trials, and goes on after a restart."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from spt.config.composer import open_composer
from spt.config.dry_run import refusal_of
from spt.config.errors import ConfigError
from spt.config.overrides import parse
from spt.config.sweep import read_settings
from spt.config.tree import project_tree
from spt.sweep.search import OptunaSweeper
from spt.sweep.space import read_space
from tests.runs import METHODS
from tests.sweep.desk import Desk, Ending

optuna = pytest.importorskip("optuna")

SPACE = {"optimizer.lr": "tag(log, interval(1e-4, 1e-1))"}


def config(folder: Path, objective: str) -> DictConfig:
    sweep = {"parallel": 2, "on_refused": "stop", "metrics": [], "objective": objective}
    hydra = {"sweep": {"dir": str(folder)}, "overrides": {"hydra": ["hydra.mode=MULTIRUN"]}}
    return OmegaConf.create({"hydra": hydra, "sweep": sweep})


class Search:
    """Commands with the same words on one folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, objective: str = "train/loss") -> None:
        self.folder, self.objective = folder, objective
        monkeypatch.setattr("sys.argv", ["train.py", "-m", "data=fake"])
        monkeypatch.setattr("spt.sweep.search.refusal_of", lambda arguments, words: None)  # composes every trial

    def run(self, ending: Callable[[float], Ending], *, num_trials: int) -> list[float]:
        """The learning rates that a command has launched."""
        sweeper = OptunaSweeper(SPACE, "minimize", num_trials, None, None, 0, optuna.samplers.TPESampler)
        desk = Desk(self.folder, lambda values: ending(float(values["optimizer.lr"])))
        sweeper.whole = config(self.folder, self.objective)
        sweeper.settings, sweeper.folder = read_settings(sweeper.whole), self.folder
        sweeper.launcher = desk
        sweeper.sweep(["data=fake"])
        return [float(word.partition("=")[2]) for job in desk.launched for word in job if "lr" in word]

    def trials(self) -> list[str]:
        """How every trial stands, in order."""
        return [trial.state.name for trial in self.study().trials]

    def study(self) -> optuna.Study:
        backend = optuna.storages.journal.JournalFileBackend(str(self.folder / "study.log"))
        return optuna.load_study(study_name=self.folder.name, storage=optuna.storages.JournalStorage(backend))


def bowl(lr: float) -> Ending:
    """Best at 1e-2."""
    return Ending("completed", {"train/loss": (math.log10(lr) + 2) ** 2})


def test_a_search_comes_nearer_to_the_best_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(tmp_path, monkeypatch)
    tried = search.run(bowl, num_trials=30)
    assert len(set(tried)) == 30
    distances = [abs(math.log10(lr) + 2) for lr in tried]
    assert sum(distances[-10:]) < sum(distances[:10])
    assert search.study().best_value == pytest.approx(min(distances) ** 2)


def test_failed_trials_do_not_end_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(tmp_path, monkeypatch)
    tried = search.run(lambda lr: bowl(lr) if lr < 1e-2 else Ending("killed", {}), num_trials=8)
    assert search.trials() == ["COMPLETE" if lr < 1e-2 else "FAIL" for lr in tried]
    assert {"COMPLETE", "FAIL"} == set(search.trials())


def test_trials_that_are_there_count_and_new_ones_are_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(tmp_path, monkeypatch)
    first = search.run(bowl, num_trials=3)
    second = search.run(bowl, num_trials=5)
    assert (len(first), len(second)) == (3, 2)
    assert not set(first) & set(second)
    assert search.run(bowl, num_trials=5) == []


def test_a_trial_that_was_under_way_is_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(tmp_path, monkeypatch)
    first = search.run(lambda lr: Ending("preempted", {}), num_trials=2)
    assert search.trials() == ["RUNNING", "RUNNING"]
    assert search.run(bowl, num_trials=3)[:2] == first
    assert search.trials() == ["COMPLETE"] * 3


def test_a_metric_that_no_run_measures_is_refused_and_costs_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        Search(tmp_path, monkeypatch, objective="val/nothing").run(bowl, num_trials=3)
    assert end.value.code == 2
    assert "try: sweep.objective=train/loss" in capsys.readouterr().err
    assert len(Search(tmp_path, monkeypatch).run(bowl, num_trials=2)) == 0  # both had run, and are read now


def test_a_trial_that_cannot_work_fails_without_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(tmp_path, monkeypatch)
    monkeypatch.setattr("spt.sweep.search.refusal_of", lambda arguments, words: "no device")
    assert search.run(bowl, num_trials=2) == []
    assert search.trials() == ["FAIL", "FAIL"]


def test_a_trial_is_checked_as_a_job_is() -> None:
    command = ("-m", "hydra/sweeper=optuna", "data=fake")
    assert refusal_of(command, ("data=fake", "optimizer.lr=0.01")) is None
    assert "whole patches" in str(refusal_of(command, ("data=fake", "views.global_size=18")))


@pytest.mark.parametrize("method", METHODS)
def test_the_space_of_every_method_can_be_run_at_its_corners(method: str) -> None:
    chosen = f"method={method}"
    with open_composer(project_tree()) as composer:
        whole = composer.sweep(composer.read([chosen, "hydra/sweeper=optuna"], multirun=True))
        space = read_space(parse(f"{key}={values}" for key, values in whole.hydra.sweeper.params.items()).overrides)
        ends = [{key: values.low for key, values in space.distributions.items()},
                {key: values.high for key, values in space.distributions.items()}]  # fmt: skip
        for values in ends:
            composer.compose(composer.read([chosen, *space.words(values)], multirun=False), job=0)
    assert {"optimizer.lr", "optimizer.weight_decay"} < set(space.distributions)
    assert any(word in key for key in space.distributions for word in ("temperature", "momentum"))


def test_ranges_are_read_as_hydra_reads_them() -> None:
    words = ["a=tag(log,interval(0.1,10))", "b=int(interval(2,8))", "c=x,y", "d=range(1,4)", "e=3", "a=interval(1,2)"]
    space = read_space(parse(words).overrides)
    assert space.distributions == {
        "a": optuna.distributions.FloatDistribution(1.0, 2.0),  # the last one counts
        "b": optuna.distributions.IntDistribution(2, 8),
        "c": optuna.distributions.CategoricalDistribution(["x", "y"]),
        "d": optuna.distributions.CategoricalDistribution(["1", "2", "3"]),
    }
    assert space.fixed == ["e=3"]
    assert space.words({"b": 5}) == ["e=3", "b=5"]


@pytest.mark.parametrize(
    ("word", "reason"),
    [("a=1", "nothing to search"), ("a=interval(2,1)", "below the second"), ("a=tag(log,interval(0,1))", "logarithm")],
)
def test_a_range_that_is_none_is_refused(word: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read_space(parse([word]).overrides)
