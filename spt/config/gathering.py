"""From a composed config and this machine to the facts that the rules look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from spt.checkpoint.resume import AUTO
from spt.config.facts import Facts, RunFolder
from spt.config.inputs import read_inputs
from spt.config.interpolations import flatten
from spt.config.machine import (
    count_gpus,
    gpu_has_bfloat16,
    has_cpp_compiler,
    in_slurm_step,
    is_installed,
    resolve_accelerator,
    resolve_devices,
    slurm_tasks,
    started_processes,
    torch_version,
)
from spt.config.readings import (
    asks_for,
    block_sizes,
    class_facts,
    count,
    count_built,
    deepspeed_world_size,
    either,
    flag,
    foreign_options,
    image_folder,
    is_given,
    limit,
    missing_file,
    momentums,
    number,
    strategy_kind,
    targets,
    text,
    too_small,
    warmups,
    whole,
)
from spt.config.resumed import read_resumed
from spt.config.tree import Plain


def gather_facts(cfg: DictConfig, choices: Mapping[str, str], run_folder: RunFolder | None = None) -> Facts:
    """Facts of a composed config, on this machine.

    Args:
        cfg: composed, with every reference resolvable.
        choices: the option chosen in each group.
        run_folder: of the run; None where nothing runs.
    """
    config = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(config, dict)
    nodes = {str(key): node for key, node in config.items() if key != "hydra"}
    values = flatten(nodes)
    chosen = Facts(
        method=choices.get("method"),
        backbone=choices.get("backbone"),
        data=choices.get("data"),
        strategy=choices.get("strategy"),
        precision=text(values, "precision.name") or choices.get("precision"),
        has_masks=bool(config.get("masks")),
    )
    known = _with_resumed(_with_inputs(_with_networks(chosen, values), values), nodes, run_folder)
    return _with_strategy(_with_run(_with_optimizer(known, values), values), nodes.get("strategy"), values)


def _with_networks(facts: Facts, values: Mapping[str, Plain]) -> Facts:
    method, backbone = class_facts(values, "method"), class_facts(values, "backbone")
    return replace(
        facts,
        has_teacher=flag(method, "has_teacher"),
        needs_tokens=flag(method, "needs_tokens"),
        needs_masks=flag(method, "needs_masks"),
        needs_local_views=flag(method, "needs_local_views"),
        contrasts_batch=flag(method, "contrasts_batch"),
        drops_gradients=flag(method, "drops_gradients"),
        skips_parameters=flag(method, "skips_parameters"),
        min_global_views=count(method, "min_global_views"),
        gives_tokens=flag(backbone, "gives_tokens"),
        has_batch_norm=either(flag(method, "has_batch_norm"), flag(backbone, "has_batch_norm")),
        patch_size=whole(values, "backbone.patch_size"),
        position_size=whole(values, "backbone.image_size"),
        learning_rate_warmups=tuple(warmups(values, "optimizer.")),
        other_warmups=tuple(warmups(values, "method.")),
        momentums=tuple(momentums(values)),
    )


def _with_inputs(facts: Facts, values: Mapping[str, Plain]) -> Facts:
    folder, folder_state = image_folder(values, facts.data)
    smallest, largest = block_sizes(values)
    return replace(
        facts,
        global_size=whole(values, "views.global_size"),
        local_size=whole(values, "views.local_size"),
        num_global_views=count_built(values, "views.global_views"),
        num_local_views=whole(values, "views.num_local_views"),
        context_tokens=whole(values, "masks.min_keep"),
        target_tokens=smallest,
        largest_block=largest,
        num_images=whole(values, "data.num_images"),
        image_folder=folder,
        image_folder_state=folder_state,
        inputs=read_inputs(values),
        global_batch_size=whole(values, "data.global_batch_size"),
    )


def _with_resumed(facts: Facts, nodes: Mapping[str, Plain], run_folder: RunFolder | None) -> Facts:
    resume = nodes.get("resume")
    if not isinstance(resume, str):
        return facts
    folder = RunFolder(Path(), False) if run_folder is None else run_folder
    found = read_resumed(resume, folder.path, nodes)
    return replace(
        facts,
        missing_checkpoint=found.missing,
        incomplete_checkpoint=found.incomplete,
        resumed_checkpoint=None if found.path is None else str(found.path),
        resume_step=found.step,
        resume_changes=found.changes,
        later_checkpoint=found.later,
        resumes_automatically=resume == AUTO,
        run_folder_is_new=folder.is_new,
        resume_world_size=None if found.path is None else deepspeed_world_size(found.path),
    )


def _with_optimizer(facts: Facts, values: Mapping[str, Plain]) -> Facts:
    rule = text(values, "optimizer.rule")
    update = text(values, f"optimizer.rules.{rule}._target_")
    return replace(
        facts,
        update_rule=rule,
        update_class=None if update is None else update.rpartition(".")[2],
        num_optimizers=sum(target.endswith(".OptimizerRecipe") for target in targets(values)) or None,
        clip_norm=number(values.get("optimizer.clip_norm")),
        clip_unit=text(values, "optimizer.clip_unit"),
        batch_norm_scope=text(values, "batch_norm.scope"),
        has_sync_batch_norm=asks_for(values, "sync_batchnorm", "SyncBatchNorm"),
        compiles=asks_for(values, "compile", "torch.compile") or text(values, "compile.scope") in ("blocks", "step"),
        compile_backend=text(values, "compile.backend"),
        has_cpp_compiler=has_cpp_compiler(),
    )


def _with_run(facts: Facts, values: Mapping[str, Plain]) -> Facts:
    accelerator = text(values, "trainer.accelerator") or "auto"
    devices = values.get("trainer.devices")
    return replace(
        facts,
        devices=resolve_devices(devices, accelerator) if isinstance(devices, (int, str, list)) else None,
        num_nodes=whole(values, "trainer.num_nodes"),
        accumulate_grad_batches=whole(values, "trainer.accumulate_grad_batches"),
        accelerator=resolve_accelerator(accelerator),
        max_epochs=limit(values, "trainer.max_epochs"),
        max_steps=limit(values, "trainer.max_steps"),
        too_small=tuple(too_small(values)),
        missing_weights=missing_file(values, "backbone.init_from") if values.get("resume") is None else None,
        has_weights=text(values, "backbone.init_from") is not None or flag(values, "backbone.pretrained") is True,
        freeze_steps=whole(values, "backbone.freeze_steps"),
        gpus=count_gpus(),
        torch_version=torch_version(),
        deepspeed_installed=is_installed("deepspeed"),
        slurm_tasks=slurm_tasks(),
        in_slurm_step=in_slurm_step(),
        started_processes=started_processes(),
    )


def _with_strategy(facts: Facts, node: Plain, values: Mapping[str, Plain]) -> Facts:
    wants_bfloat16 = facts.accelerator == "gpu" and (facts.precision or "").startswith("bf16")
    return replace(
        facts,
        strategy_kind=strategy_kind(values, facts.strategy),
        foreign_options=tuple(foreign_options(node)),
        find_unused_parameters=flag(values, "strategy.find_unused_parameters"),
        replicate_size=whole(values, "strategy.replicate_size"),
        data_parallel_size=whole(values, "strategy.data_parallel_size"),
        tensor_parallel_size=whole(values, "strategy.tensor_parallel_size"),
        has_mesh=is_given(values, "strategy.mesh"),
        has_parallelize_fn=is_given(values, "strategy.parallelize_fn"),
        gpu_has_bfloat16=gpu_has_bfloat16() if wants_bfloat16 else None,
    )
