"""Where figures go, and what a command line is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spt.config.errors import ConfigError
from spt.config.evaluated import read_source
from spt.config.evaluation import compose_evaluation, expanded, typed
from spt.offline.results import online_value
from tests.offline.runs import copy_of_trained, trained

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("knn", "linear_probe", "finetune", "extract_features")


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_runs_data_is_that_of_the_run_with_every_number(script: str) -> None:
    cfg = compose_evaluation(script, f"source={trained()}")
    assert cfg.data.source._target_ == "spt.data.sources.digits.Digits"
    assert (cfg.data.source.val_share, cfg.data.bank_size, cfg.data.seed) == (0.1, 150, 3)
    assert cfg.folder == str(trained())


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_is_typed_wins_over_the_runs_data(script: str) -> None:
    cfg = compose_evaluation(script, f"source={trained()}", "data.evaluation_batch_size=5")
    assert (cfg.data.evaluation_batch_size, cfg.data.bank_size) == (5, 150)
    cfg = compose_evaluation(script, f"source={trained()}", "data=digits")
    assert cfg.data.source.val_share == 0.2


def test_a_run_whose_choices_are_not_at_hand_asks_for_the_data(tmp_path: Path) -> None:
    folder = copy_of_trained(tmp_path / "run")
    assert read_source(str(folder)).data == "digits"
    (folder / "summary.json").unlink()
    with pytest.raises(ConfigError, match="data=cifar10"):
        expanded("knn", [f"source={folder}"])


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ([], "source=<a run folder>"),
        (["source=nowhere"], "source=timm:nowhere"),
        (["source=timm:resnet18"], "data=cifar10"),
        (["source=timm:resnet18", "data=digits", "kk=3"], "did you mean: k"),
    ],
)
def test_what_cannot_be_evaluated_says_what_to_type(words: list[str], advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        expanded("knn", words)


def test_data_that_the_config_of_a_run_reads_by_other_code_is_refused(tmp_path: Path) -> None:
    folder = copy_of_trained(tmp_path / "run")
    file = folder / "config_resolved.yaml"
    file.write_text(file.read_text().replace("spt.data.sources.digits.Digits", "os.system"))
    with pytest.raises(ConfigError, match=r"read its images by os\.system"):
        expanded("knn", [f"source={folder}"])


@pytest.mark.parametrize(
    "value", [None, True, 3, 0.5, "plain", "with space", "a'b", "null", "1e5", [1, "x y"], "/a/b-c.d", "", "a,b", "k=v"]
)
def test_a_value_comes_back_from_the_command_line_as_it_was(value: object) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    override = OverridesParser.create().parse_override(f"key={typed(value)}")  # type: ignore[arg-type]
    found = override.value()
    assert (found if not isinstance(found, list) else [str(one) for one in found]) == (
        value if not isinstance(value, list) else [str(one) for one in value]
    )


def test_the_online_figure_is_that_of_the_same_weights() -> None:
    assert online_value(trained(), "val/knn_top1", 4) != online_value(trained(), "val/knn_top1", 0)
    assert online_value(trained(), "val/knn_top1", 3) is None
    assert online_value(None, "val/knn_top1", 4) is None


def start(script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, f"scripts/{script}.py", *words], cwd=ROOT, env={**os.environ, **variables},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_helps_and_refuses_without_torch(script: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    helped = start(script, "--help", PYTHONPATH=str(tmp_path))
    assert helped.returncode == 0
    assert "source=timm:" in helped.stdout
    refused = start(script, f"source={tmp_path / 'nowhere'}", PYTHONPATH=str(tmp_path))
    assert refused.returncode == 2
    assert "does not exist" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_a_command_writes_its_result_and_a_figure_into_the_runs_wandb_run(tmp_path: Path) -> None:
    folder = copy_of_trained(tmp_path / "run")
    (folder / "wandb_id.txt").write_text("abcd1234\n")
    done = start("knn", f"source={folder}", WANDB_MODE="offline")
    assert done.returncode == 0, done.stderr
    assert "the run's own probe" in done.stdout
    assert json.loads((folder / "evaluation" / "knn.json").read_text())["metric"] == "knn_top1"
    (file,) = (folder / "wandb").glob("offline-run-*-abcd1234/run-abcd1234.wandb")
    assert b"evaluation/knn" in file.read_bytes()
