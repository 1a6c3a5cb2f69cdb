"""The dashboard as a file, and as wandb has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from spt.config.errors import ConfigError
from spt.reporting.dashboard import View, read_dashboard
from tests.runs import METHODS, compose

ROOT = Path(__file__).resolve().parents[2]


def view(name: str, *swept: str) -> View:
    (found,) = [view for view in read_dashboard(swept=swept) if view.name == name]
    return found


def test_the_sections_are_those_that_a_reader_looks_for() -> None:
    assert list(view("runs").sections) == ["learning", "accuracy", "collapse", "schedules", "speed", "pictures"]
    assert any(panel.columns for panel in view("sweep").panels)


@pytest.mark.parametrize("method", METHODS)
def test_every_key_that_sweeps_are_grouped_by_is_in_the_config(tmp_path: Path, method: str) -> None:
    cfg = compose(method, tmp_path)
    keys = [*view("sweep").group_by, *(key for panel in view("sweep").panels for key in panel.columns)]
    assert "seed" not in keys  # or each seed were a group of its own
    assert not [key for key in keys if OmegaConf.select(cfg, key) is None]


def test_keys_of_a_sweep_tell_groups_apart_and_have_an_axis() -> None:
    swept = view("sweep", "method.temperature", "optimizer.lr")
    assert swept.group_by.count("optimizer.lr") == 1
    assert swept.group_by[-1] == "method.temperature"
    (plot,) = [panel for panel in swept.panels if panel.columns]
    assert plot.columns[-1] == "method.temperature"
    assert view("runs", "method.temperature") == view("runs")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("runs: {section: {}}", "runs of the dashboard has the key section; use group_by, sections"),
        ("runs: {sections: {speed: [{title: a, metric: [b]}]}}", "runs.speed of the dashboard has the key metric"),
    ],
)
def test_a_key_that_means_nothing_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "spec.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_dashboard(tmp_path / "spec.yaml")
    with pytest.raises(ConfigError, match="does not exist"):
        read_dashboard(tmp_path / "absent.yaml")


def test_without_a_key_the_script_writes_the_dashboard_and_says_so(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB", "NETRC"))}
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "dashboard.py"), "--project", "mine", "--swept", "method.temperature"],
        cwd=tmp_path, env={**environment, "HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "wandb login" in done.stdout
    content = json.loads((tmp_path / "dashboard.json").read_text())
    assert (content["project"], [view["name"] for view in content["views"]]) == ("mine", ["runs", "sweep"])
    assert content["views"][0]["sections"]["learning"][0]["metrics"] == ["train/loss"]
    assert "method.temperature" in content["views"][1]["group_by"]


def test_wandb_builds_the_workspaces_from_it() -> None:
    pytest.importorskip("wandb_workspaces")
    from spt.reporting.workspace import workspaces

    runs, sweep = (
        json.loads(workspace._to_model().model_dump_json(by_alias=True))["spec"]["section"]
        for workspace in workspaces(read_dashboard(), project="mine", entity="me")
    )
    sections = runs["panelBankConfig"]["sections"]
    assert [section["name"] for section in sections] == list(view("runs").sections)
    loss = sections[0]["panels"][0]["config"]
    assert (loss["metrics"], loss["xAxis"]) == (["train/loss"], "trainer/global_step")
    assert sections[-1]["panels"][0]["config"]["mediaKeys"] == ["pictures/views"]
    plot = sweep["panelBankConfig"]["sections"][0]["panels"][0]
    assert plot["viewType"] == "Parallel Coordinates Plot"
    accessors = [column["accessor"] for column in plot["config"]["columns"]]
    assert "config:optimizer.value.lr" in accessors
    assert accessors[-1] == "summary:val/knn_top1"
    grouped = [key["name"] for key in sweep["runSets"][0]["grouping"]]
    assert grouped[0] == "method.value._target_"
    assert len(grouped) == len(view("sweep").group_by)
