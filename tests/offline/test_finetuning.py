"""Fine-tuning: which layers learn how fast, and that several processes are as good as one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from timm.layers import DropPath
from torch import nn

from spt.backbones.timm_model import timm_backbone
from spt.config.errors import ConfigError
from spt.config.evaluated import read_source
from spt.config.evaluation import compose_evaluation
from spt.evaluate import finetune
from spt.offline.finetuning import FinetuningRecipe, layer_groups
from spt.offline.network import open_network
from spt.reporting.metrics_file import read_metrics
from tests.offline.runs import copy_of_trained, trained
from tests.ranks import run_ranks

RECIPE = FinetuningRecipe(
    base_lr=0.01, min_lr=0.0, warmup_epochs=1, layer_decay=0.5, weight_decay=0.05, betas=[0.9, 0.999], drop_path=0.0,
    label_smoothing=0.1, head_init_std=0.01,
)  # fmt: skip
WORDS = (
    "trainer.accelerator=cpu", "trainer.max_epochs=6", "recipe.warmup_epochs=0", "recipe.drop_path=0.0",
    "recipe.base_lr=0.02", "recipe.head_init_std=0.02", "data.global_batch_size=154", "trainer.log_every_n_steps=1",
    "augmentation.crop_scale=[0.8,1.0]", "augmentation.flip=0.0",
)  # fmt: skip


def test_every_block_learns_at_a_share_of_the_next_ones_rate() -> None:
    network = timm_backbone(name="vit_tiny_patch16_224", pretrained=False, drop_path=0.0, options={"depth": 3}).network
    shares: dict[str, float] = {}
    decays: dict[str, float] = {}
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    for group in layer_groups(network, RECIPE):
        for parameter in group["params"]:  # type: ignore[attr-defined]
            shares[names[id(parameter)]], decays[names[id(parameter)]] = group["lr_scale"], group["weight_decay"]  # type: ignore[assignment]
    assert shares.keys() == set(names.values())
    assert [shares[f"blocks.{block}.mlp.fc1.weight"] for block in range(3)] == [0.125, 0.25, 0.5]
    assert {shares[name] for name in ("norm.weight", "norm.bias")} == {0.5}
    assert {shares[name] for name in ("cls_token", "pos_embed", "patch_embed.proj.weight")} == {0.0625}
    assert {name for name, decay in decays.items() if decay} == {
        name for name in names.values() if name.endswith("weight") and "norm" not in name
    }


def test_drop_path_is_that_of_the_recipe() -> None:
    network = open_network(
        read_source(str(trained())), checkpoint="last", pretrained=False, packages=[], drop_path=0.25
    )
    rates = [module.drop_prob for module in network.backbone.modules() if isinstance(module, DropPath)]
    assert max(rates) == pytest.approx(0.25)
    assert not any(isinstance(module, nn.Dropout) and module.p > 0 for module in network.backbone.modules())


@pytest.mark.parametrize(("changes", "advice"), [({"layer_decay": 0.0}, "layer_decay"), ({"drop_path": 1.0}, "drop_")])
def test_numbers_that_mean_nothing_are_refused(changes: dict[str, float], advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        replace(RECIPE, **changes)  # type: ignore[arg-type]


def tuned(folder: Path, *words: str) -> dict[str, float]:
    """The last row of metrics.csv, and the result."""
    torch.set_num_threads(1)
    value = finetune(compose_evaluation("finetune", f"source={folder}", *WORDS, *words))
    rows = read_metrics(folder / "evaluation" / "finetune" / "metrics.csv")
    latest = {name: number for row in rows for name, number in row.items()}
    return {"value": value, "loss": latest["train/loss"], "first": rows[0]["train/loss"], "rows": float(len(rows))}


def test_the_network_learns_and_the_accuracy_after_the_last_pass_is_the_result(tmp_path: Path) -> None:
    folder = copy_of_trained(tmp_path / "run")
    found = tuned(folder)
    assert found["loss"] < found["first"] - 0.1
    written = json.loads((folder / "evaluation" / "finetune.json").read_text())
    assert written["value"] == found["value"]
    assert (written["epochs"], written["steps"], written["world_size"]) == (6, 60, 1)
    assert read_metrics(folder / "evaluation" / "finetune" / "metrics.csv")[-1]["val/finetune_top1"] == pytest.approx(
        found["value"]
    )


def test_two_processes_end_as_one(tmp_path: Path) -> None:
    one, two = copy_of_trained(tmp_path / "one"), copy_of_trained(tmp_path / "two")
    expected = tuned(one)
    first, second = run_ranks(tuned, 2, two, "trainer.devices=2", "strategy=ddp")
    assert first["value"] == second["value"] == pytest.approx(expected["value"], abs=1.5 / 180)
    assert first["loss"] == pytest.approx(expected["loss"], rel=1e-3)
