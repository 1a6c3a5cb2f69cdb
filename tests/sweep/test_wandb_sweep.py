"""The sweep that Weights & Biases chooses: what its agent types is what train.py takes."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import yaml

from spt.config.command_line import check_command_line

FILE = Path(__file__).resolve().parents[2] / "scripts" / "wandb_sweep.yaml"
Values = dict[str, list[int]]


def typed(end: str) -> list[str]:
    """The command of a run at one end of every range, as wandb itself writes it."""
    utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils")
    sweep = yaml.safe_load(FILE.read_text())
    chosen = {
        key: {"value": cast(Values, given)["values"][0] if "values" in given else given[end]}
        for key, given in sweep["parameters"].items()
    }
    words = utils.create_sweep_command(sweep["command"])
    at = words.index("${args_no_hyphens}")
    words[at : at + 1] = utils.create_sweep_command_args({"args": chosen})["args_no_hyphens"]
    return cast(list[str], words)


@pytest.mark.parametrize("end", ["min", "max"])
def test_the_agent_types_what_hydra_takes(end: str) -> None:
    words = typed(end)
    assert words[words.index("${program}") + 1] == "method=dino"
    assert check_command_line(words[words.index("${program}") + 1 :])
    assert "logger=wandb" in words


def test_the_metric_is_one_that_runs_log() -> None:
    assert yaml.safe_load(FILE.read_text())["metric"] == {"name": "val/knn_top1", "goal": "maximize"}
