"""Rules about strategies, DeepSpeed left out."""

from __future__ import annotations

from spt.config.facts import Facts
from spt.config.rule import Rule

FSDP2_NEEDS_TORCH = (2, 11)  # what the tests run on at least; fully_shard is public from 2.6 on


def _fixed_processes(facts: Facts) -> int:
    """Product of the parallel sizes that are numbers."""
    return (facts.replicate_size or 1) * (facts.data_parallel_size or 1) * (facts.tensor_parallel_size or 1)


def _sizes_fit(facts: Facts) -> bool:
    world_size, fixed = facts.world_size, _fixed_processes(facts)
    if world_size is None or facts.has_mesh:
        return True
    return world_size % fixed == 0 if facts.data_parallel_size is None else world_size == fixed


STRATEGY_RULES: tuple[Rule, ...] = (
    Rule(
        name="fsdp2-in-place-of-fsdp",
        broken=lambda f: f.strategy_kind == "fsdp",
        message=lambda f: (
            f"strategy={f.strategy} is FSDP1, which flattens parameters: weight-decay groups, per-tensor clipping and "
            "LARS lose the tensors they are about."
        ),
        fix=lambda f: "strategy=fsdp2",
        severity="error",
        example=Facts(strategy="fsdp", strategy_kind="fsdp"),
    ),
    Rule(
        name="no-float16-under-fsdp2",
        broken=lambda f: f.strategy_kind == "fsdp2" and f.precision in ("16-mixed", "16-true"),
        message=lambda f: (
            f"precision={f.precision} needs loss scaling, and the scaler does not know about the sharded gradients of "
            f"strategy={f.strategy}."
        ),
        fix=lambda f: "precision=bf16-mixed, or strategy=ddp",
        severity="error",
        example=Facts(strategy="fsdp2", strategy_kind="fsdp2", precision="16-mixed"),
    ),
    Rule(
        name="torch-has-fsdp2",
        broken=lambda f: (
            f.strategy_kind == "fsdp2" and f.torch_version is not None and f.torch_version < FSDP2_NEEDS_TORCH
        ),
        message=lambda f: (
            f"strategy={f.strategy} needs torch {_version(FSDP2_NEEDS_TORCH)}, and {_version(f.torch_version)} is "
            "installed."
        ),
        fix=lambda f: f"pip install 'torch>={_version(FSDP2_NEEDS_TORCH)}', or strategy=ddp",
        severity="error",
        example=Facts(strategy="fsdp2", strategy_kind="fsdp2", torch_version=(2, 5)),
    ),
    Rule(
        name="no-sync-batch-norm-under-fsdp2",
        broken=lambda f: f.strategy_kind == "fsdp2" and f.has_sync_batch_norm is True,
        message=lambda f: (
            f"torch's SyncBatchNorm under strategy={f.strategy} is left out without a word, and would not run in "
            "sharded networks."
        ),
        fix=lambda f: "batch_norm=global",
        severity="error",
        example=Facts(strategy="fsdp2", strategy_kind="fsdp2", has_sync_batch_norm=True),
    ),
    Rule(
        name="no-sync-batch-norm-on-cpu",
        broken=lambda f: f.accelerator == "cpu" and f.strategy_kind != "fsdp2" and f.has_sync_batch_norm is True,
        message=lambda f: f"torch's SyncBatchNorm runs on GPUs alone; trainer.accelerator is {f.accelerator} here.",
        fix=lambda f: "batch_norm=global",
        severity="error",
        example=Facts(accelerator="cpu", strategy_kind="ddp", has_sync_batch_norm=True),
    ),
    Rule(
        name="tensor-parallel-needs-a-function",
        broken=lambda f: (
            f.strategy_kind == "fsdp2" and (f.tensor_parallel_size or 1) > 1 and f.has_parallelize_fn is False
        ),
        message=lambda f: (
            f"strategy.tensor_parallel_size={f.tensor_parallel_size}: nothing says how layers are divided, so these "
            "processes would all do the same work."
        ),
        fix=lambda f: "strategy.parallelize_fn (a function in YAML, by _target_), or strategy.tensor_parallel_size=1",
        severity="error",
        example=Facts(strategy_kind="fsdp2", tensor_parallel_size=2, has_parallelize_fn=False),
    ),
    Rule(
        name="parallel-sizes-are-all-processes",
        broken=lambda f: f.strategy_kind == "fsdp2" and not _sizes_fit(f),
        message=lambda f: (
            f"strategy.replicate_size={f.replicate_size} x strategy.data_parallel_size={f.data_parallel_size or 'auto'}"
            f" x strategy.tensor_parallel_size={f.tensor_parallel_size} does not make the {f.world_size} processes of "
            f"trainer.devices={f.devices} x trainer.num_nodes={f.num_nodes}."
        ),
        fix=lambda f: (
            f"trainer.devices={_fixed_processes(f)}, or "
            "strategy.data_parallel_size=auto strategy.replicate_size=1 strategy.tensor_parallel_size=1"
        ),
        severity="error",
        example=Facts(
            strategy_kind="fsdp2",
            replicate_size=2,
            data_parallel_size=2,
            tensor_parallel_size=1,
            devices=8,
            num_nodes=1,
        ),
    ),
    Rule(
        name="unused-parameters-are-found",
        broken=lambda f: f.find_unused_parameters is False and f.skips_parameters is True,
        message=lambda f: (
            f"method={f.method} leaves parameters without a gradient in some steps, and strategy={f.strategy} waits "
            "for every gradient (strategy.find_unused_parameters=false)."
        ),
        fix=lambda f: "strategy.find_unused_parameters=true",
        severity="error",
        example=Facts(method="mine", strategy="ddp", find_unused_parameters=False, skips_parameters=True),
    ),
    Rule(
        name="unused-parameters-are-there",
        broken=lambda f: f.find_unused_parameters is True and f.skips_parameters is False,
        message=lambda f: (
            f"strategy.find_unused_parameters=true walks the graph of every step, and every parameter of "
            f"method={f.method} is used in all of them: a slower run for nothing."
        ),
        fix=lambda f: "strategy.find_unused_parameters=false",
        severity="warning",
        example=Facts(method="dino", find_unused_parameters=True, skips_parameters=False),
    ),
    Rule(
        name="options-of-this-strategy",
        broken=lambda f: bool(f.foreign_options),
        message=lambda f: (
            ", ".join(f"strategy.{key} is an option of strategy={other}" for key, other in f.foreign_options)
            + f"; strategy={f.strategy} has none of that name."
        ),
        fix=lambda f: (
            f"strategy={f.foreign_options[0][1]}, or " + " ".join(f"~strategy.{k}" for k, _ in f.foreign_options)
        ),
        severity="error",
        example=Facts(strategy="ddp", foreign_options=(("cpu_offload", "fsdp2"),)),
    ),
)


def _version(numbers: tuple[int, int] | None) -> str:
    return "unknown" if numbers is None else ".".join(str(number) for number in numbers)
