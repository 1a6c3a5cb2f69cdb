"""Rules about DeepSpeed, under which much that cannot work goes wrong without an error."""

from __future__ import annotations

from spt.config.facts import Facts
from spt.config.rule import Rule

# update rules that treat every number of a tensor alike: stage 3 hands the optimizer one flat slice of all tensors
ELEMENTWISE = ("Adam", "AdamW", "SGD", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop")


def _is_deepspeed(facts: Facts) -> bool:
    return facts.strategy_kind == "deepspeed"


def _example(**facts: object) -> Facts:
    return Facts(strategy="deepspeed_stage_3", strategy_kind="deepspeed", **facts)  # type: ignore[arg-type]


DEEPSPEED_RULES: tuple[Rule, ...] = (
    Rule(
        name="deepspeed-is-installed",
        broken=lambda f: _is_deepspeed(f) and f.deepspeed_installed is False,
        message=lambda f: f"strategy={f.strategy} needs the package deepspeed, which is not installed.",
        fix=lambda f: "pip install -e '.[deepspeed]' (or pip install deepspeed), or strategy=fsdp2",
        severity="error",
        example=_example(deepspeed_installed=False),
    ),
    Rule(
        name="deepspeed-on-cuda",
        broken=lambda f: _is_deepspeed(f) and f.accelerator is not None and f.accelerator != "gpu",
        message=lambda f: (
            f"strategy={f.strategy} runs on CUDA GPUs alone; trainer.accelerator is {f.accelerator} here."
        ),
        fix=lambda f: "strategy=fsdp2, or strategy=ddp",
        severity="error",
        example=_example(accelerator="cpu"),
    ),
    Rule(
        name="deepspeed-without-teacher",
        broken=lambda f: _is_deepspeed(f) and f.has_teacher is True,
        message=lambda f: (
            f"method={f.method} averages its student into a teacher, and strategy={f.strategy} keeps weights where the "
            "average does not find them: the teacher would stand still without an error."
        ),
        fix=lambda f: "strategy=fsdp2",
        severity="error",
        example=_example(method="dino", has_teacher=True),
    ),
    Rule(
        name="deepspeed-updates-elementwise",
        broken=lambda f: _is_deepspeed(f) and f.update_class is not None and f.update_class not in ELEMENTWISE,
        message=lambda f: (
            f"optimizer.rule={f.update_rule} ({f.update_class}) looks at whole tensors, and strategy={f.strategy} "
            "gives it one flat slice of all of them: it would diverge without an error."
        ),
        fix=lambda f: "optimizer.rule=adamw optimizer.lr=0.001, or strategy=fsdp2",
        severity="error",
        example=_example(update_rule="lars", update_class="LARS"),
    ),
    Rule(
        name="deepspeed-has-one-optimizer",
        broken=lambda f: _is_deepspeed(f) and (f.num_optimizers or 1) > 1,
        message=lambda f: (
            f"the config holds {f.num_optimizers} optimizer recipes, and strategy={f.strategy} drives one; probes have "
            "their own and do not count."
        ),
        fix=lambda f: "strategy=fsdp2",
        severity="error",
        example=_example(num_optimizers=2),
    ),
    Rule(
        name="deepspeed-clips-globally",
        broken=lambda f: _is_deepspeed(f) and f.clip_norm is not None and f.clip_unit == "tensor",
        message=lambda f: (
            f"optimizer.clip_unit={f.clip_unit}: strategy={f.strategy} clips all gradients by their joint norm itself, "
            "and there is no whole gradient of a tensor to clip."
        ),
        fix=lambda f: "optimizer.clip_unit=global, or strategy=fsdp2",
        severity="error",
        example=_example(clip_norm=3.0, clip_unit="tensor"),
    ),
    Rule(
        name="deepspeed-keeps-gradients",
        broken=lambda f: _is_deepspeed(f) and f.drops_gradients is True,
        message=lambda f: (
            f"method={f.method} freezes layers by dropping their gradient, and strategy={f.strategy} steps with "
            "gradients that it keeps elsewhere: the layers would move."
        ),
        fix=lambda f: "strategy=fsdp2",
        severity="error",
        example=_example(method="dino", drops_gradients=True),
    ),
    Rule(
        name="deepspeed-uses-all-parameters",
        broken=lambda f: _is_deepspeed(f) and f.skips_parameters is True,
        message=lambda f: (
            f"method={f.method} leaves parameters without a gradient in some steps, and strategy={f.strategy} would "
            "apply the gradient of the step before again."
        ),
        fix=lambda f: "strategy=ddp strategy.find_unused_parameters=true, or strategy=fsdp2",
        severity="error",
        example=_example(method="mine", skips_parameters=True),
    ),
    Rule(
        name="deepspeed-without-compile",
        broken=lambda f: _is_deepspeed(f) and f.compiles is True,
        message=lambda f: f"torch.compile of a part of the network fails under strategy={f.strategy}.",
        fix=lambda f: "strategy=ddp or strategy=fsdp2, or leave torch.compile out",
        severity="error",
        example=_example(compiles=True),
    ),
    Rule(
        name="deepspeed-without-float16",
        broken=lambda f: _is_deepspeed(f) and f.precision in ("16-mixed", "16-true"),
        message=lambda f: (
            f"precision={f.precision} under strategy={f.strategy} means float16 weights, BatchNorm included, with loss "
            "scaling of DeepSpeed's own."
        ),
        fix=lambda f: "precision=bf16-mixed",
        severity="error",
        example=_example(precision="16-mixed"),
    ),
    Rule(
        name="deepspeed-batch-norm-in-float32",
        broken=lambda f: _is_deepspeed(f) and f.precision == "bf16-true" and f.has_batch_norm is True,
        message=lambda f: (
            f"precision={f.precision} under strategy={f.strategy} makes weights bfloat16 and leaves the running "
            f"statistics of BatchNorm in method={f.method} or backbone={f.backbone} in float32, which do not mix."
        ),
        fix=lambda f: "precision=bf16-mixed",
        severity="error",
        example=_example(precision="bf16-true", has_batch_norm=True, method="simclr", backbone="vit_small"),
    ),
    Rule(
        name="deepspeed-resumes-on-as-many",
        broken=lambda f: (
            _is_deepspeed(f)
            and f.resume_world_size is not None
            and f.world_size is not None
            and f.resume_world_size != f.world_size
        ),
        message=lambda f: (
            f"the checkpoint was written by {f.resume_world_size} processes, and trainer.devices={f.devices} x "
            f"trainer.num_nodes={f.num_nodes} = {f.world_size} go on from it: strategy={f.strategy} resumes on as many "
            "as wrote."
        ),
        fix=lambda f: f"trainer.devices={max(1, (f.resume_world_size or 1) // max(f.num_nodes or 1, 1))}",
        severity="error",
        example=_example(resume_world_size=8, devices=4, num_nodes=1),
    ),
)
