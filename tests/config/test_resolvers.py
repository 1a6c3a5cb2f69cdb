"""What YAML files compute."""

from __future__ import annotations

import pytest
from hydra.types import RunMode
from omegaconf import OmegaConf

from spt.config.resolvers import chosen, linear_lr, local_size, register, run_group, sqrt_lr


def test_learning_rates_scale_with_the_global_batch() -> None:
    assert linear_lr(0.3, 4096) == pytest.approx(4.8)
    assert sqrt_lr(0.075, 4096) == pytest.approx(4.8)


@pytest.mark.parametrize(("image", "patch", "size"), [(224, 16, 96), (16, 4, 8), (28, 4, 12), (8, 8, 8), (32, 1, 14)])
def test_small_crops_are_three_sevenths_in_whole_patches(image: int, patch: int, size: int) -> None:
    assert local_size(image, patch) == size


@pytest.mark.parametrize("patch", [0, -4, None])
def test_a_patch_that_a_rule_refuses_raises_nothing(patch: int | None) -> None:
    assert local_size(224, patch) == 96


def test_a_run_belongs_to_its_sweep_else_to_its_experiment() -> None:
    choices = OmegaConf.create({"method": "dino", "experiment": "dino_vits16_imagenet"})
    assert run_group(RunMode.MULTIRUN, "runs/sweeps/monday", choices) == "monday"
    assert run_group(RunMode.RUN, "runs/sweeps/monday", choices) == "dino_vits16_imagenet"
    assert run_group(None, "runs/sweeps/monday", OmegaConf.create({"experiment": None})) is None


def test_chosen_options_are_those_of_the_groups_named() -> None:
    choices = OmegaConf.create({"method": "dino", "experiment": None, "data": "digits", "logger": "csv"})
    assert list(chosen(choices, "data", "method", "experiment", "absent")) == ["digits", "dino"]


def test_registering_twice_is_allowed() -> None:
    register()
    register()
    cfg = OmegaConf.create({"lr": "${linear_lr:0.1,512}"})
    assert cfg.lr == pytest.approx(0.2)
