"""What wandb got of whole runs, read back from its offline files."""

from __future__ import annotations

import logging
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml
from lightning import Callback, LightningModule, Trainer

from spt.config.errors import ConfigError
from spt.config.tree import project_tree
from spt.finite import NonFiniteLossError
from spt.reporting.dashboard import read_dashboard
from spt.reporting.metrics_file import read_metrics
from spt.run import Run
from tests.reporting.wandb_file import Told, offline_files, read
from tests.runs import METHODS, build

LOGGERS = "logger=[wandb,tensorboard]"
VARIABLES = ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE", "WANDB_RUN_ID", "NETRC")


@pytest.fixture(scope="module", autouse=True)
def _no_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module", params=METHODS)
def logged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of each method, one after the other in this process."""
    pytest.importorskip("tensorboard")
    run = build(request.param, tmp_path_factory.mktemp("logged"), LOGGERS, has_pictures=True)
    run.fit()
    return run


def told_by(folder: Path) -> list[Told]:
    return [read(path) for path in offline_files(folder)]


def method_of(run: Run) -> str:
    return run.choices["method"]


def test_a_run_is_one_run_with_its_config_name_and_tags(logged: Run) -> None:
    (told,) = told_by(logged.folder)
    (start,) = told.starts
    assert told.config == yaml.safe_load((logged.folder / "config_resolved.yaml").read_text())
    assert start.run_id == (logged.folder / "wandb_id.txt").read_text().strip()
    assert start.display_name == f"{method_of(logged)}-vit_micro-fake-seed0"
    assert (start.project, start.run_group, start.job_type) == ("spt-ssl", "", "pretrain")
    assert {method_of(logged), "vit_micro", "fake", "single", "32-true"} <= set(start.tags)
    assert len(start.tags) == len(set(start.tags))
    assert told.exits == [0]


def test_rows_are_those_of_metrics_csv_over_optimizer_steps(logged: Run) -> None:
    (told,) = told_by(logged.folder)
    assert told.steps() == told.steps("_step") == [0, 1, 2, 3, 4, 5, 6]
    file = {row["step"]: row for row in read_metrics(logged.folder / "metrics.csv")}
    for row in told.history:
        step = cast(float, row["trainer/global_step"])
        ours = {name: value for name, value in file[step].items() if "/" in name}
        assert {name: row[name] for name in ours} == pytest.approx(ours, rel=1e-6)
        assert all(math.isfinite(cast(float, row[name])) for name in ours)


def test_pictures_are_with_wandb_and_with_tensorboard(logged: Run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    drawn = {path.stem for path in (logged.folder / "plots").glob("*.png")} - {"curves"}
    (told,) = told_by(logged.folder)
    assert {f"pictures/{name}" for name in drawn} == {name for name in told.names if name.startswith("pictures/")}
    there = offline_files(logged.folder)[0].parent / "files"
    media = [path for path in told.files if path.startswith("media/")]
    assert len(media) >= len(drawn)
    assert all((there / path).read_bytes().startswith(b"\x89PNG") for path in media)
    events = EventAccumulator(str(logged.folder / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["images"]) == {f"pictures/{name}" for name in drawn}
    assert {"train/loss", "val/knn_top1", "system/memory_gib"} <= set(events.Tags()["scalars"])


def test_every_metric_and_picture_of_the_dashboard_is_logged(logged: Run) -> None:
    """By a run of each method; and by no run of the methods that a panel leaves out."""
    (told,) = told_by(logged.folder)
    for view in read_dashboard():
        for panel in view.panels:
            for name in (*panel.metrics, *panel.pictures):
                assert (name in told.names) == panel.is_of(method_of(logged)), (view.name, panel.title, name)


def test_the_dashboard_leaves_out_nothing_that_is_logged(logged: Run) -> None:
    (told,) = told_by(logged.folder)
    shown = {name for view in read_dashboard() for panel in view.panels for name in (*panel.metrics, *panel.pictures)}
    assert told.names - {"trainer/global_step"} <= shown


class Kill(Callback):
    """Sends this process a signal in the middle of an epoch."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


def preempted(folder: Path, *words: str) -> Run:
    """A run that is told to stop within its second epoch, and has stopped."""
    run = build("simclr", folder, "logger=wandb", *words)
    run.trainer.callbacks.insert(0, Kill(step=3))  # type: ignore[attr-defined]
    with pytest.raises(SystemExit) as end:
        run.fit()
    assert end.value.code == 143
    return run


def test_a_requeued_run_goes_on_in_the_same_run_over_rising_steps(tmp_path: Path) -> None:
    preempted(tmp_path)
    build("simclr", tmp_path, "logger=wandb", "resume=auto").fit()
    first, second = told_by(tmp_path)
    assert [told.starts[0].run_id for told in (first, second)] == [(tmp_path / "wandb_id.txt").read_text().strip()] * 2
    assert (first.exits, first.is_preempted) == ([143], True)
    assert (second.exits, second.is_preempted) == ([0], False)
    for name in ("trainer/global_step", "_step"):
        assert [*first.steps(name), *second.steps(name)] == [0, 1, 2, 3, 4, 5, 6]
    assert second.config == yaml.safe_load((tmp_path / "config_resolved.yaml").read_text())


def test_a_failed_run_is_marked_as_failed(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteLossError):
        build("simclr", tmp_path, "logger=wandb", "probes=none", "optimizer.lr=1e30").fit()
    (told,) = told_by(tmp_path)
    assert told.exits == [1]


def test_a_run_without_a_key_says_in_one_line_how_to_upload_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """And asks nothing."""
    with caplog.at_level(logging.INFO):
        build("simclr", tmp_path, "logger=wandb", "probes=none").fit()
    told = [record.getMessage() for record in caplog.records if record.name == "spt.reporting.wandb"]
    assert told == [f"wandb is offline; to upload this run later: wandb sync {tmp_path}/wandb/offline-run-*"]
    assert "wandb" not in "".join(capfd.readouterr())


def test_a_service_that_does_not_answer_makes_the_run_an_offline_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spt.reporting.wandb._SECONDS_TO_ANSWER", 1.0)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(
        ConfigError, match=r"logger.wandb.mode=online, and the service does not take the run: .*offline"
    ):
        build("simclr", tmp_path / "online", "logger=wandb", "probes=none", "logger.wandb.mode=online").fit()
    build("simclr", tmp_path / "auto", "logger=wandb", "probes=none").fit()
    assert "wandb does not take the run: " in caplog.text
    (told,) = told_by(tmp_path / "auto")
    assert told.exits == [0]


def id_of(folder: Path) -> str:
    return (folder / "wandb_id.txt").read_text().strip()


def test_a_checkpoint_leads_to_its_run_unless_something_has_changed(tmp_path: Path) -> None:
    first = tmp_path / "first"
    preempted(first)
    resume = f"resume={first / 'checkpoints' / 'last.ckpt'}"
    build("simclr", tmp_path / "moved", "logger=wandb", resume)
    assert id_of(tmp_path / "moved") == id_of(first)
    build("simclr", tmp_path / "other", "logger=wandb", resume, "optimizer.weight_decay=0.5")
    assert id_of(tmp_path / "other") != id_of(first)
    build("simclr", tmp_path / "named", "logger=wandb", resume, "logger.wandb.id=mine")
    assert id_of(tmp_path / "named") == "mine"
    (first / "wandb_id.txt").unlink()
    build("simclr", first, "logger=wandb", "resume=auto")
    assert id_of(first) == id_of(tmp_path / "moved")


def test_every_logger_is_there_on_its_own_too() -> None:
    assert project_tree().options("logger") == ["csv", "none", "tensorboard", "wandb"]
