"""Every rule broken once and passed once, by facts that differ in one value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spt.config.check import broken_rules, check
from spt.config.errors import ConfigError
from spt.config.facts import Facts
from spt.config.inputs import Inputs
from spt.config.resumed import Change
from spt.config.rule import Rule
from spt.config.rules import RULES

SOUND = Facts(
    method="ijepa", has_teacher=True, needs_tokens=True, needs_masks=True, needs_local_views=False,
    contrasts_batch=False, drops_gradients=False, skips_parameters=False, backbone="vit_micro", gives_tokens=True,
    has_batch_norm=False, patch_size=4, position_size=16, global_size=16, local_size=8, num_global_views=1,
    min_global_views=1, num_local_views=0, has_masks=True, context_tokens=3, target_tokens=2, largest_block=15,
    data="digits", num_images=1437, global_batch_size=128, devices=1, num_nodes=1, accumulate_grad_batches=1,
    accelerator="cpu", gpus=0, strategy="single", strategy_kind="single", precision="32-true", max_epochs=20,
    max_steps=-1, learning_rate_warmups=(("optimizer.lr_schedule.warmup_epochs", 10),),
    other_warmups=(("method.teacher_temperature.warmup_epochs", 20),), momentums=(("method.momentum.start", 0.996),),
    update_rule="adamw", update_class="AdamW", num_optimizers=1, clip_norm=3.0, clip_unit="tensor",
    batch_norm_scope="local", has_sync_batch_norm=False, compiles=False, has_cpp_compiler=True, torch_version=(2, 14),
    deepspeed_installed=False, has_weights=False, freeze_steps=0,
    inputs=Inputs(made_on="device", num_workers=0, images_on="device", in_memory=True),
)  # fmt: skip
IN_WORKERS = replace(SOUND, inputs=Inputs(made_on="worker", own_views=("views.local_view",), num_workers=2))
FSDP2 = replace(
    SOUND, strategy="fsdp2", strategy_kind="fsdp2", devices=4, replicate_size=1, tensor_parallel_size=1,
    has_parallelize_fn=False, has_mesh=False,
)  # fmt: skip
DDP = replace(SOUND, strategy="ddp", strategy_kind="ddp", devices=2, find_unused_parameters=False)
DEEPSPEED = replace(
    SOUND, strategy="deepspeed_stage_3", strategy_kind="deepspeed", devices=2, gpus=2, accelerator="gpu",
    deepspeed_installed=True, method="mine", has_teacher=False, clip_unit="global",
)  # fmt: skip
SLURM = replace(DDP, slurm_tasks=2, in_slurm_step=True)
LR = Change("optimizer.lr", 0.1, 0.2)
RESUMED = replace(
    SOUND, resumed_checkpoint="runs/a/checkpoints/step00000220.ckpt", resume_step=220, resume_changes=(LR,),
    resumes_automatically=True, run_folder_is_new=False,
)  # fmt: skip

BROKEN_BY = {
    "global-crop-of-whole-patches": replace(SOUND, global_size=18, position_size=18),
    "local-crop-of-whole-patches": replace(SOUND, num_local_views=2, local_size=7, needs_local_views=True),
    "tokens-needed": replace(SOUND, gives_tokens=False),
    "tokens-to-compare": replace(
        SOUND,
        global_size=8,
        position_size=8,
        needs_masks=False,
        has_masks=False,
        context_tokens=None,
        target_tokens=None,
        largest_block=None,
    ),
    "masks-needed": replace(SOUND, has_masks=False),
    "masks-unused": replace(SOUND, needs_masks=False),
    "masks-on-the-backbones-grid": replace(SOUND, position_size=32),
    "masks-fit-the-grid": replace(SOUND, context_tokens=15),
    "batch-divides-over-devices": replace(SOUND, accumulate_grad_batches=3),
    "batch-within-data": replace(SOUND, num_images=127, max_epochs=30),
    "warmup-within-run": replace(SOUND, learning_rate_warmups=(("optimizer.lr_schedule.warmup_epochs", 20.1),)),
    "schedule-within-run": replace(SOUND, other_warmups=(("method.teacher_temperature.warmup_epochs", 30),)),
    "images-present": replace(SOUND, image_folder="nowhere", image_folder_state="empty"),
    "own-views-in-workers": replace(SOUND, inputs=Inputs(made_on="device", own_views=("views.local_view",))),
    "reduced-decoding-for-the-devices-views": replace(
        SOUND, inputs=Inputs(made_on="worker", num_workers=2, reduced_decoding=1.0)
    ),
    "views-in-workers-have-workers": replace(SOUND, inputs=Inputs(made_on="worker", num_workers=0)),
    "images-on-the-device-are-held-in-memory": replace(SOUND, inputs=SOUND.inputs._replace(in_memory=False)),
    "images-on-the-device-without-workers": replace(SOUND, inputs=SOUND.inputs._replace(num_workers=1)),
    "images-in-memory-need-no-workers": replace(SOUND, inputs=SOUND.inputs._replace(num_workers=1, images_on="auto")),
    "momentum-within-unit": replace(SOUND, momentums=(("method.momentum.start", 1.01),)),
    "numbers-large-enough": replace(SOUND, too_small=(("probes.knn.k", 0, 1),)),
    "checkpoint-present": replace(SOUND, missing_checkpoint="nowhere.ckpt"),
    "checkpoint-complete": replace(SOUND, incomplete_checkpoint="runs/a/checkpoints/step00000009.ckpt"),
    "resume-keeps-the-experiment": replace(SOUND, resume_changes=(LR, Change("backbone.depth", 6, 12))),
    "resume-has-steps-left": replace(SOUND, resume_step=221),  # of 220
    "resume-auto-in-a-lasting-folder": replace(SOUND, resumes_automatically=True, run_folder_is_new=True),
    "resume-from-the-newest": replace(SOUND, later_checkpoint="runs/a/checkpoints/step00000099.ckpt"),
    "deepspeed-checkpoints-stay-deepspeed": replace(RESUMED, resume_world_size=1),
    "weights-to-start-from-present": replace(SOUND, missing_weights="nowhere.pth"),
    "frozen-backbone-has-weights": replace(SOUND, freeze_steps=3),
    "backbone-trains-at-all": replace(SOUND, freeze_steps=220, has_weights=True),
    "frozen-backbone-without-deepspeed": replace(DEEPSPEED, freeze_steps=3, has_weights=True),
    "run-has-an-end": replace(SOUND, max_epochs=-1),
    "run-has-a-step": replace(SOUND, max_steps=0),
    "one-end-of-run": replace(SOUND, max_steps=221),
    "devices-present": replace(SOUND, accelerator="gpu"),
    "one-device-for-single": replace(SOUND, devices=2),
    "enough-global-views": replace(SOUND, min_global_views=2),
    "lars-for-transformers": replace(SOUND, update_rule="lars", update_class="LARS"),
    "images-for-batch-norm": replace(SOUND, has_batch_norm=True, global_batch_size=1),
    "bfloat16-on-this-gpu": replace(SOUND, precision="bf16-mixed", accelerator="gpu", gpus=1, gpu_has_bfloat16=False),
    "slurm-tasks-as-asked": replace(SLURM, slurm_tasks=8),
    "srun-starts-tasks": replace(SLURM, in_slurm_step=False),
    "processes-as-asked": replace(DDP, started_processes=4),
    "nodes-need-a-launcher": replace(DDP, num_nodes=2),
    "fsdp2-in-place-of-fsdp": replace(DDP, strategy="fsdp", strategy_kind="fsdp"),
    "no-float16-under-fsdp2": replace(FSDP2, precision="16-mixed", accelerator="gpu", gpus=4),
    "torch-has-fsdp2": replace(FSDP2, torch_version=(2, 5)),
    "no-sync-batch-norm-under-fsdp2": replace(FSDP2, has_sync_batch_norm=True),
    "no-sync-batch-norm-on-cpu": replace(DDP, has_sync_batch_norm=True),
    "tensor-parallel-needs-a-function": replace(FSDP2, tensor_parallel_size=2),
    "parallel-sizes-are-all-processes": replace(FSDP2, data_parallel_size=3),
    "unused-parameters-are-found": replace(DDP, skips_parameters=True),
    "unused-parameters-are-there": replace(DDP, find_unused_parameters=True),
    "options-of-this-strategy": replace(DDP, foreign_options=(("cpu_offload", "fsdp2"),)),
    "deepspeed-is-installed": replace(DEEPSPEED, deepspeed_installed=False),
    "deepspeed-on-cuda": replace(DEEPSPEED, accelerator="cpu"),
    "deepspeed-without-teacher": replace(DEEPSPEED, has_teacher=True),
    "deepspeed-updates-elementwise": replace(DEEPSPEED, update_class="LARS"),
    "deepspeed-has-one-optimizer": replace(DEEPSPEED, num_optimizers=2),
    "deepspeed-clips-globally": replace(DEEPSPEED, clip_unit="tensor"),
    "deepspeed-keeps-gradients": replace(DEEPSPEED, drops_gradients=True),
    "deepspeed-uses-all-parameters": replace(DEEPSPEED, skips_parameters=True),
    "accelerator-known": replace(SOUND, accelerator="tpu"),
    "compiler-present": replace(SOUND, compiles=True, compile_backend="inductor", has_cpp_compiler=False),
    "deepspeed-without-compile": replace(DEEPSPEED, compiles=True),
    "deepspeed-without-float16": replace(DEEPSPEED, precision="16-mixed"),
    "deepspeed-batch-norm-in-float32": replace(DEEPSPEED, precision="bf16-true", has_batch_norm=True),
    "deepspeed-resumes-on-as-many": replace(DEEPSPEED, resume_world_size=4),
    "float16-on-cuda": replace(SOUND, precision="16-mixed"),
    "teacher-in-float32": replace(SOUND, precision="bf16-true"),
    "local-views-unused": replace(SOUND, num_local_views=2),
    "negatives-within-micro-batch": replace(SOUND, contrasts_batch=True, accumulate_grad_batches=2),
}
ALSO_BROKEN = {"batch-within-data": {"warmup-within-run", "schedule-within-run"}}  # a run of no steps is shorter still


def broken_names(facts: Facts) -> set[str]:
    """Names of all rules that these facts break, warnings included."""
    return {rule.name for severity in ("error", "warning") for rule in broken_rules(facts, severity=severity)}


def test_every_rule_is_broken_in_this_file() -> None:
    assert {rule.name for rule in RULES} == set(BROKEN_BY)


def test_names_of_rules_are_unique() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("facts", [SOUND, DDP, FSDP2, DEEPSPEED, SLURM, RESUMED, IN_WORKERS])
def test_a_sound_experiment_breaks_no_rule(facts: Facts) -> None:
    assert broken_names(facts) == set()
    assert check(facts) == []


def test_unknown_facts_break_no_rule() -> None:
    assert broken_names(Facts()) == set()


@pytest.mark.parametrize("name", BROKEN_BY)
def test_a_rule_is_broken_by_the_value_it_is_about_and_by_no_other(name: str) -> None:
    assert broken_names(BROKEN_BY[name]) - ALSO_BROKEN.get(name, set()) == {name}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_broken_rule_says_what_to_type(rule: Rule) -> None:
    for facts in (BROKEN_BY[rule.name], rule.example):
        assert rule.broken(facts)
        assert "None" not in rule.message(facts) + rule.fix(facts) or facts is BROKEN_BY[rule.name]
        assert "=" in rule.fix(facts) or rule.fix(facts).startswith(("~", "pip install"))


def test_all_broken_rules_are_reported_at_once() -> None:
    facts = replace(SOUND, global_size=18, position_size=18, precision="bf16-true", devices=2)
    with pytest.raises(ConfigError) as error:
        check(facts)
    for name in ("global-crop-of-whole-patches", "teacher-in-float32", "one-device-for-single"):
        assert f"{name}: " in str(error.value)
    assert str(error.value).count("    try: ") == 3


def test_a_warning_does_not_stop_a_run() -> None:
    (warning,) = check(replace(SOUND, num_local_views=2))
    assert "views.num_local_views=0" in warning


def test_following_the_advice_mends_a_rule() -> None:
    rule = next(rule for rule in RULES if rule.name == "batch-within-data")
    advice = int(rule.fix(BROKEN_BY["batch-within-data"]).partition("=")[2])
    assert not rule.broken(replace(BROKEN_BY["batch-within-data"], global_batch_size=advice))


def test_no_micro_batch_at_all_is_mended_by_one() -> None:
    rule = next(rule for rule in RULES if rule.name == "batch-divides-over-devices")
    facts = replace(SOUND, accumulate_grad_batches=0)
    assert rule.broken(facts)
    assert rule.fix(facts) == "trainer.accumulate_grad_batches=1"


def test_a_warm_up_as_long_as_the_run_passes() -> None:
    assert "warmup-within-run" not in broken_names(
        replace(SOUND, learning_rate_warmups=(("optimizer.lr_schedule.warmup_epochs", 20),))
    )


def test_a_warm_up_is_compared_in_epochs_while_the_images_are_not_counted() -> None:
    uncounted = replace(SOUND, num_images=None, learning_rate_warmups=(("optimizer.lr_schedule.warmup_epochs", 21),))
    assert broken_names(uncounted) == {"warmup-within-run"}
    assert broken_names(replace(uncounted, max_epochs=21)) == set()


def test_images_counted_later_complete_the_facts() -> None:
    later = replace(SOUND, num_images=None)
    assert later.steps_per_epoch is None
    assert later.with_data(1437).total_steps == 20 * (1437 // 128)


def test_a_mesh_of_the_users_own_needs_no_sizes() -> None:
    assert broken_names(replace(FSDP2, data_parallel_size=3, has_mesh=True)) == set()


def test_one_image_per_device_is_enough_for_batch_norm_over_all_devices() -> None:
    alone = replace(DDP, has_batch_norm=True, global_batch_size=2)
    assert broken_names(alone) == {"images-for-batch-norm"}
    assert broken_names(replace(alone, batch_norm_scope="global")) == set()


def test_a_slurm_refusal_names_both_numbers() -> None:
    with pytest.raises(ConfigError, match=r"SLURM started 8 tasks .*asks for 2 processes"):
        check(replace(SLURM, slurm_tasks=8))


def test_nodes_that_srun_has_started_need_no_other_launcher() -> None:
    assert broken_names(replace(SLURM, num_nodes=2, slurm_tasks=4)) == set()
