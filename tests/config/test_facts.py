"""Facts gathered from a composed config and the machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from spt.config.facts import gather_facts
from spt.config.machine import count_gpus, resolve_accelerator, resolve_devices

CHOICES = {"method": "dino", "backbone": "vit_micro", "data": "digits", "strategy": "single", "precision": "32-true"}


def config(**groups: object) -> DictConfig:
    """A config of a few groups, the others missing."""
    return OmegaConf.create(groups)


def test_facts_of_classes_come_from_their_sources() -> None:
    cfg = config(
        method={"_target_": "methods.dino.DINO"},
        backbone={"_target_": "spt.backbones.vit.VisionTransformer", "patch_size": 4},
    )
    facts = gather_facts(cfg, CHOICES)
    assert (facts.has_teacher, facts.needs_masks, facts.gives_tokens, facts.patch_size) == (True, False, True, 4)


def test_what_is_not_configured_is_not_known() -> None:
    facts = gather_facts(config(seed=0), {})
    assert (facts.method, facts.has_teacher, facts.patch_size, facts.total_steps, facts.max_epochs) == (None,) * 5


def test_momentums_and_warmups_are_found_at_any_depth() -> None:
    cfg = config(
        method={"momentum": {"start": 0.99, "end": 1.0, "counting": "from_zero"}, "center_momentum": 0.9,
                "teacher": {"warmup_epochs": 30}},
        optimizer={"lr_schedule": {"warmup_epochs": 2.5}, "factory": {"momentum": 0.8, "momentum_form": "lr_inside"}},
    )  # fmt: skip
    facts = gather_facts(cfg, CHOICES)
    assert dict(facts.momentums) == {
        "method.momentum.start": 0.99, "method.momentum.end": 1.0, "method.center_momentum": 0.9,
        "optimizer.factory.momentum": 0.8,
    }  # fmt: skip
    assert facts.learning_rate_warmups == (("optimizer.lr_schedule.warmup_epochs", 2.5),)
    assert facts.other_warmups == (("method.teacher.warmup_epochs", 30),)


@pytest.mark.parametrize(
    ("max_epochs", "max_steps", "total"),
    [(3, -1, 3 * 11), (None, 7, 7), (3, 7, 7), (-1, None, None), (3, 50, 33)],
)
def test_the_run_ends_at_the_nearer_limit(max_epochs: int | None, max_steps: int | None, total: int | None) -> None:
    cfg = config(
        trainer={"max_epochs": max_epochs, "max_steps": max_steps},
        data={"num_images": 1437, "global_batch_size": 128},
    )
    assert gather_facts(cfg, CHOICES).total_steps == total


def test_block_sizes_are_counted_on_the_grid_of_the_views() -> None:
    cfg = config(
        views={"global_size": 24}, backbone={"patch_size": 4},
        masks={"min_keep": 5, "context_scale": [0.85, 1.0], "target_scale": [0.15, 0.2]},
    )  # fmt: skip
    facts = gather_facts(cfg, CHOICES)
    assert (facts.num_tokens, facts.context_tokens, facts.target_tokens, facts.largest_block) == (36, 5, 5, 36)


@pytest.mark.parametrize("state", ["absent", "empty", "filled"])
def test_an_image_folder_is_looked_at(tmp_path: Path, state: str) -> None:
    root = tmp_path / "images"
    if state != "absent":
        root.mkdir()
    if state == "filled":
        (root / "train").mkdir()
    cfg = config(data={"source": {"root": str(root)}})
    assert gather_facts(cfg, {"data": "image_folder"}).image_folder_state == state
    assert gather_facts(cfg, {"data": "cifar10"}).image_folder_state is None


@pytest.mark.parametrize(("visible", "count"), [("", 0), ("-1", 0)])
def test_hidden_gpus_are_not_counted(monkeypatch: pytest.MonkeyPatch, visible: str, count: int) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert count_gpus() == count


@pytest.mark.parametrize(("devices", "count"), [(3, 3), ("auto", 1), (-1, 1), ([0, 2], 2), ("5", 5), ("many", None)])
def test_devices_are_counted_however_they_are_written(devices: int | str | list, count: int | None) -> None:
    assert resolve_devices(devices, "cpu") == count


def test_cuda_is_another_word_for_gpu() -> None:
    assert resolve_accelerator("cuda") == "gpu"
    assert resolve_accelerator("cpu") == "cpu"
