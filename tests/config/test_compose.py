"""The command line's config without a command line, and the project's own YAML files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

import spt
from spt.config.composer import INTERPRETED, SUPPLIED, open_composer
from spt.config.errors import ConfigError
from spt.config.targets import HYDRA_KEYS, OWN_PACKAGES, signature, target_nodes
from spt.config.tree import project_tree

TREE = project_tree()
METHODS = TREE.options("method")
# every option of every group; left out are the pieces that option files are made of, and recipes, which no one names
OPTIONS = [f"{group}={option}" for group in TREE.choices() if group != "recipe" for option in TREE.options(group)]


def test_a_notebook_gets_the_config_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cfg = spt.compose("method=dino", "seed=3")
    assert (cfg.seed, cfg.method._target_) == (3, "methods.dino.DINO")
    assert "hydra" not in cfg
    assert HydraConfig.get().runtime.choices.method == "dino"
    assert Path(HydraConfig.get().runtime.output_dir).is_relative_to(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_composed_config_stays_when_another_is_composed() -> None:
    first = spt.compose("seed=1")
    before = OmegaConf.to_yaml(first)
    spt.compose("seed=2", "method=byol")
    assert OmegaConf.to_yaml(first) == before


def test_a_notebook_gets_the_errors_of_the_command_line() -> None:
    with pytest.raises(ConfigError, match="did you mean: seed"):
        spt.compose("sed=1")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_composes_with_the_defaults(method: str) -> None:
    assert spt.compose(f"method={method}").method._target_.startswith("methods.")


@pytest.mark.parametrize("word", OPTIONS)
def test_yaml_keys_are_the_parameters_of_their_target_in_order(word: str) -> None:
    with open_composer(TREE) as composer:
        cfg = composer.loader.load_configuration("config", [word], RunMode.RUN, from_shell=False)
    plain = OmegaConf.to_container(cfg, resolve=False)
    assert isinstance(plain, dict)
    for node in target_nodes({str(key): value for key, value in plain.items() if key != "hydra"}):
        target = str(node.values["_target_"])
        expected = signature(target) if target.split(".")[0] in OWN_PACKAGES else None
        if expected is None:
            continue
        supplied = SUPPLIED.get(node.key, frozenset())
        names = [parameter.name for parameter in expected.parameters if parameter.name not in supplied]
        keys = [key for key in node.values if key not in HYDRA_KEYS | INTERPRETED.get(node.key, frozenset())]
        if node.values.get("_partial_"):
            names = [name for name in names if name in keys]
        assert keys == names, f"{node.key} ({target})"
