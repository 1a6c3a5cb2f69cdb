"""Facts gathered from a composed config and the machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from spt import compose
from spt.config.facts import Facts
from spt.config.gathering import gather_facts
from spt.config.machine import (
    Group,
    count_gpus,
    joined_group,
    resolve_accelerator,
    resolve_devices,
    slurm_tasks,
    torch_version,
)
from spt.config.tree import project_tree, read_yaml

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


@pytest.mark.parametrize(("name", "size"), [("vit_tiny_patch16_224", 16), ("resnet18", None)])
def test_the_patch_of_a_timm_model_is_in_its_name(name: str, size: int | None) -> None:
    cfg = compose("backbone=timm", f"backbone.name={name}")
    assert cfg.backbone.patch_size == size
    assert gather_facts(cfg, {"backbone": "timm"}).patch_size == size


def test_small_crops_are_whole_patches_of_a_timm_model() -> None:
    cfg = compose(
        "method=dino", "backbone=timm", "backbone.name=vit_tiny_patch16_224", "data=fake", "data.image_size=128"
    )
    assert cfg.views.local_size == 48


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


def strategy_facts(**strategy: object) -> Facts:
    """Facts of a config with a strategy node alone."""
    return gather_facts(config(strategy=strategy), {"strategy": "mine"})


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("spt.strategies.ddp.DDPStrategy", "ddp"), ("spt.strategies.fsdp2.FSDP2Strategy", "fsdp2"),
        ("spt.strategies.single.SingleStrategy", "single"), ("lightning.pytorch.strategies.FSDPStrategy", "fsdp"),
        ("spt.strategies.deepspeed.DeepSpeedStage3Strategy", "deepspeed"), ("somebody.elses.Strategy", None),
    ],
)  # fmt: skip
def test_a_strategy_is_known_by_its_class_and_not_by_the_name_of_its_file(target: str, kind: str | None) -> None:
    assert strategy_facts(_target_=target).strategy_kind == kind


def test_options_of_another_strategy_are_told_from_unknown_ones() -> None:
    facts = strategy_facts(_target_="spt.strategies.ddp.DDPStrategy", cpu_offload=True, bucket_cap_mb=5, typo=1)
    assert facts.foreign_options == (("cpu_offload", "fsdp2"),)


def test_every_option_of_the_project_has_a_kind_and_no_foreign_keys() -> None:
    tree = project_tree()
    for option in tree.options("strategy"):
        file = tree.file("strategy", option)
        assert file is not None
        facts = gather_facts(config(strategy=read_yaml(file)), {"strategy": option})
        assert facts.strategy_kind is not None
        assert facts.foreign_options == ()


def test_the_chosen_update_rule_is_named_by_its_class() -> None:
    cfg = config(
        optimizer={
            "_target_": "spt.optim.recipe.OptimizerRecipe", "rule": "lars", "clip_norm": 3, "clip_unit": "tensor",
            "rules": {"lars": {"_target_": "spt.optim.lars.LARS"}, "sgd": {"_target_": "torch.optim.SGD"}},
        },
        batch_norm={"scope": "global"},
    )  # fmt: skip
    facts = gather_facts(cfg, CHOICES)
    assert (facts.update_rule, facts.update_class, facts.num_optimizers) == ("lars", "LARS", 1)
    assert (facts.clip_norm, facts.clip_unit, facts.batch_norm_scope) == (3.0, "tensor", "global")


def test_layers_and_compilation_are_found_wherever_they_are_asked_for() -> None:
    facts = gather_facts(config(backbone={"norm_layer": "torch.nn.SyncBatchNorm"}, trainer={"compile": True}), {})
    assert (facts.has_sync_batch_norm, facts.compiles) == (True, True)
    facts = gather_facts(config(backbone={"norm_layer": "torch.nn.BatchNorm2d"}, trainer={"sync_batchnorm": False}), {})
    assert (facts.has_sync_batch_norm, facts.compiles) == (False, False)


def test_a_deepspeed_checkpoint_tells_how_many_processes_wrote_it(tmp_path: Path) -> None:
    folder = tmp_path / "last.ckpt" / "checkpoint"
    folder.mkdir(parents=True)
    for rank in range(3):
        (folder.parent / "complete.json").touch()
        (folder / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt").touch()
    assert gather_facts(config(resume=str(folder.parent)), {}).resume_world_size == 3
    assert gather_facts(config(resume=str(tmp_path / "other.ckpt")), {}).resume_world_size is None


TORCHRUN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}
SRUN = {"SLURM_NTASKS": "6", "SLURM_PROCID": "5", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("variables", "group", "tasks"),
    [
        ({}, None, None),
        (TORCHRUN, Group("torchrun", 1, 4), None),
        (SRUN, Group("srun", 5, 6), 6),
        ({**SRUN, **TORCHRUN}, Group("torchrun", 1, 4), None),  # torchrun in a SLURM job
        ({"SLURM_NTASKS": "6", "SLURM_PROCID": "0"}, None, 6),  # the script of a batch job
        ({**SRUN, "SLURM_JOB_NAME": "bash"}, None, None),  # srun --pty bash
    ],
)
def test_launchers_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], group: Group | None, tasks: int | None
) -> None:
    for name in (*TORCHRUN, *SRUN, "SLURM_JOB_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert joined_group() == group
    assert slurm_tasks() == tasks
    facts = gather_facts(config(), {})
    assert facts.slurm_tasks == tasks
    assert facts.started_processes == (4 if variables.get("RANK") else None)


def test_the_version_of_torch_is_read_without_importing_it() -> None:
    assert torch_version() == tuple(int(part) for part in torch.__version__.split(".")[:2])


def test_transforms_of_single_images_are_told_from_recipes_of_views() -> None:
    recipe, own = {"_target_": "spt.views.view.View"}, {"_target_": "torchvision.transforms.v2.CenterCrop", "size": 8}
    views = {"made_on": "device", "local_view": None, "global_views": {"first": recipe, "second": own}}
    inputs = gather_facts(config(views=views, data={"source": {"reduced_decoding": 2.0}, "num_workers": 3}), {}).inputs
    assert (inputs.made_on, inputs.own_views) == ("device", ("views.global_views.second",))
    assert (inputs.num_workers, inputs.reduced_decoding) == (3, 2.0)
    assert gather_facts(config(views={**views, "local_view": own}), {}).inputs.own_views[1:] == ("views.local_view",)


@pytest.mark.parametrize(
    ("option", "in_memory"),
    [("digits", True), ("cifar10", True), ("cifar100", True), ("fashion_mnist", True), ("stl10", True), ("fake", False),
     ("image_folder", False)],
)  # fmt: skip
def test_sources_say_whether_images_are_held_in_memory(option: str, in_memory: bool) -> None:
    file = project_tree().file("data", option)
    assert file is not None
    target = read_yaml(file)["source"]["_target_"]
    inputs = gather_facts(config(data={"source": {"_target_": target}, "images_on": "auto"}), {}).inputs
    assert (inputs.in_memory, inputs.images_on) == (in_memory, "auto")
