"""Combinations that cannot work, or that do something else than they seem to: one row each.

To add one: append a row to RULES, break it once and pass it once in tests/config/test_rules.py. A predicate sees plain
facts only, and a fact that is None breaks nothing. `python scripts/list_rules.py` prints the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from spt.config.facts import Facts


class Rule(NamedTuple):
    """One row of the table.

    Attributes:
        name: what an error is called, in words joined by hyphens.
        broken: whether these facts break the rule.
        message: the keys and values at fault, and why they cannot work.
        fix: something to type instead.
        severity: an error stops the run before anything is built; a warning is logged and the run goes on.
        example: facts that break it, for the printed table.
    """

    name: str
    broken: Callable[[Facts], bool]
    message: Callable[[Facts], str]
    fix: Callable[[Facts], str]
    severity: Literal["error", "warning"]
    example: Facts


def _divides(part: int | None, whole: int | None) -> bool:
    """True when nothing speaks against it."""
    return part is None or whole is None or (part > 0 and whole > 0 and whole % part == 0)


def _nearest_multiple(value: int | None, part: int | None) -> int:
    step = max(part or 1, 1)
    return max(1, round((value or 0) / step)) * step


def _too_long(facts: Facts, warmups: tuple[tuple[str, float], ...]) -> list[tuple[str, float]]:
    """Warm-ups that do not end within the run."""
    total = facts.total_steps
    if total is None or facts.steps_per_epoch is None:
        last_epoch = facts.max_epochs if facts.max_epochs is not None and facts.max_epochs > 0 else None
        return [(key, epochs) for key, epochs in warmups if last_epoch is not None and epochs > last_epoch]
    return [(key, epochs) for key, epochs in warmups if (facts.warmup_steps(epochs) or 0) > total]


def _listed(values: list[tuple[str, float]]) -> str:
    return ", ".join(f"{key}={value:g}" for key, value in values)


def _outside_unit(facts: Facts) -> list[tuple[str, float]]:
    return [(key, value) for key, value in facts.momentums if not 0.0 <= value <= 1.0]


def _length_of_run(facts: Facts) -> str:
    if facts.total_steps is None:
        return f"trainer.max_epochs={facts.max_epochs}"
    return f"{facts.total_steps} optimizer steps"


RULES: tuple[Rule, ...] = (
    Rule(
        name="global-crop-of-whole-patches",
        broken=lambda f: not _divides(f.patch_size, f.global_size),
        message=lambda f: (
            f"views.global_size={f.global_size} is no multiple of backbone.patch_size={f.patch_size}, "
            "so the view cannot be cut into whole patches."
        ),
        fix=lambda f: f"views.global_size={_nearest_multiple(f.global_size, f.patch_size)}",
        severity="error",
        example=Facts(global_size=225, patch_size=16),
    ),
    Rule(
        name="local-crop-of-whole-patches",
        broken=lambda f: bool(f.num_local_views) and not _divides(f.patch_size, f.local_size),
        message=lambda f: (
            f"views.local_size={f.local_size} is no multiple of backbone.patch_size={f.patch_size}, "
            "so the small view cannot be cut into whole patches."
        ),
        fix=lambda f: f"views.local_size={_nearest_multiple(f.local_size, f.patch_size)}",
        severity="error",
        example=Facts(num_local_views=8, local_size=98, patch_size=16),
    ),
    Rule(
        name="tokens-needed",
        broken=lambda f: f.needs_tokens is True and f.gives_tokens is False,
        message=lambda f: (
            f"method={f.method} predicts tokens, and backbone={f.backbone} gives none: only vision transformers do."
        ),
        fix=lambda f: "backbone=vit_micro, or another backbone whose name starts with vit_",
        severity="error",
        example=Facts(method="ijepa", backbone="resnet50", needs_tokens=True, gives_tokens=False),
    ),
    Rule(
        name="masks-needed",
        broken=lambda f: f.needs_masks is True and f.has_masks is False,
        message=lambda f: f"method={f.method} predicts hidden tokens, and masks are off: nothing is hidden.",
        fix=lambda f: "masks=multiblock",
        severity="error",
        example=Facts(method="ijepa", needs_masks=True, has_masks=False),
    ),
    Rule(
        name="masks-unused",
        broken=lambda f: f.needs_masks is False and f.has_masks is True,
        message=lambda f: f"method={f.method} sees whole images, and masks are given: they would do nothing.",
        fix=lambda f: "~masks",
        severity="error",
        example=Facts(method="simclr", needs_masks=False, has_masks=True),
    ),
    Rule(
        name="masks-fit-the-grid",
        broken=lambda f: (
            f.num_tokens is not None
            and max((f.context_tokens or 0) + (f.target_tokens or 0), f.largest_block or 0) > f.num_tokens
        ),
        message=lambda f: (
            f"masks ask for {f.context_tokens} context tokens (masks.min_keep) beside target blocks of at least "
            f"{f.target_tokens}, and for blocks of up to {f.largest_block}; views.global_size={f.global_size} with "
            f"backbone.patch_size={f.patch_size} has {f.num_tokens} tokens in all."
        ),
        fix=lambda f: (
            f"masks.min_keep={max(1, (f.num_tokens or 1) // 4)}, masks.context_scale and masks.target_scale below 1, "
            "or a larger views.global_size"
        ),
        severity="error",
        example=Facts(global_size=16, patch_size=4, context_tokens=10, target_tokens=7, largest_block=14),
    ),
    Rule(
        name="batch-divides-over-devices",
        broken=lambda f: not _divides(f.shares, f.global_batch_size),
        message=lambda f: (
            f"data.global_batch_size={f.global_batch_size} does not divide into trainer.devices={f.devices} x "
            f"trainer.num_nodes={f.num_nodes} x trainer.accumulate_grad_batches={f.accumulate_grad_batches} = "
            f"{f.shares} equal micro-batches."
        ),
        fix=lambda f: f"data.global_batch_size={_nearest_multiple(f.global_batch_size, f.shares)}",
        severity="error",
        example=Facts(global_batch_size=100, devices=8, num_nodes=1, accumulate_grad_batches=1),
    ),
    Rule(
        name="batch-within-data",
        broken=lambda f: f.steps_per_epoch == 0,
        message=lambda f: (
            f"data.global_batch_size={f.global_batch_size} is more than the {f.num_images} training images of "
            f"data={f.data}: an epoch would have no step, since only whole batches are used."
        ),
        fix=lambda f: f"data.global_batch_size={_largest_batch(f)}",
        severity="error",
        example=Facts(data="digits", num_images=1437, global_batch_size=4096),
    ),
    Rule(
        name="warmup-within-run",
        broken=lambda f: bool(_too_long(f, f.learning_rate_warmups)),
        message=lambda f: (
            f"{_listed(_too_long(f, f.learning_rate_warmups))} (epochs) is longer than the run, {_length_of_run(f)}: "
            "the learning rate would never reach its peak."
        ),
        fix=lambda f: " ".join(f"{key}=0" for key, _ in _too_long(f, f.learning_rate_warmups)) + ", or a longer run",
        severity="error",
        example=Facts(
            learning_rate_warmups=(("optimizer.lr_schedule.warmup_epochs", 10),),
            num_images=1437,
            global_batch_size=128,
            max_epochs=5,
        ),
    ),
    Rule(
        name="schedule-within-run",
        broken=lambda f: bool(_too_long(f, f.other_warmups)),
        message=lambda f: (
            f"{_listed(_too_long(f, f.other_warmups))} (epochs) is longer than the run, {_length_of_run(f)}: "
            "the run ends on the way up."
        ),
        fix=lambda f: " ".join(f"{key}=0" for key, _ in _too_long(f, f.other_warmups)) + ", or a longer run",
        severity="warning",
        example=Facts(
            other_warmups=(("method.teacher_temperature.warmup_epochs", 30),),
            num_images=1437,
            global_batch_size=128,
            max_epochs=20,
        ),
    ),
    Rule(
        name="images-present",
        broken=lambda f: f.image_folder_state in ("absent", "empty"),
        message=lambda f: (
            f"data.source.root={f.image_folder} is {f.image_folder_state}; data={f.data} reads train/CLASS/IMAGE and "
            "val/CLASS/IMAGE below it."
        ),
        fix=lambda f: "data.source.root=/path/to/images",
        severity="error",
        example=Facts(data="image_folder", image_folder="data/imagenet", image_folder_state="absent"),
    ),
    Rule(
        name="momentum-within-unit",
        broken=lambda f: bool(_outside_unit(f)),
        message=lambda f: (
            f"{_listed(_outside_unit(f))} is outside [0, 1]: an average with a weight beyond these grows without bound."
        ),
        fix=lambda f: " ".join(f"{key}={min(max(value, 0.0), 1.0):g}" for key, value in _outside_unit(f)),
        severity="error",
        example=Facts(momentums=(("method.momentum.start", 1.996),)),
    ),
    Rule(
        name="run-has-an-end",
        broken=lambda f: f.max_epochs == -1 and f.max_steps == -1,
        message=lambda f: (
            f"trainer.max_epochs={f.max_epochs} and trainer.max_steps={f.max_steps} leave the run without an end, and "
            "every schedule without a length."
        ),
        fix=lambda f: "trainer.max_epochs=20",
        severity="error",
        example=Facts(max_epochs=-1, max_steps=-1),
    ),
    Rule(
        name="run-has-a-step",
        broken=lambda f: any(limit is not None and limit != -1 and limit < 1 for limit in (f.max_epochs, f.max_steps)),
        message=lambda f: (
            f"trainer.max_epochs={f.max_epochs} and trainer.max_steps={f.max_steps} allow no step: "
            "a limit is at least 1, or -1 for none."
        ),
        fix=lambda f: "trainer.max_epochs=20 trainer.max_steps=-1",
        severity="error",
        example=Facts(max_epochs=0, max_steps=-1),
    ),
    Rule(
        name="one-end-of-run",
        broken=lambda f: (
            f.total_steps is not None and f.max_steps is not None and f.max_steps > 0 and f.max_steps > f.total_steps
        ),
        message=lambda f: (
            f"trainer.max_epochs={f.max_epochs} ends the run at step {f.total_steps}, "
            f"before trainer.max_steps={f.max_steps}."
        ),
        fix=lambda f: f"trainer.max_epochs=-1 trainer.max_steps={f.max_steps}",
        severity="error",
        example=Facts(max_epochs=20, max_steps=5000, num_images=1437, global_batch_size=128),
    ),
    Rule(
        name="devices-present",
        broken=lambda f: f.accelerator == "gpu" and f.devices is not None and f.gpus is not None and f.devices > f.gpus,
        message=lambda f: (
            f"trainer.devices={f.devices} asks for more GPUs than the {f.gpus} that may be used on this machine."
        ),
        fix=lambda f: f"trainer.devices={f.gpus}" if f.gpus else "trainer.accelerator=cpu",
        severity="error",
        example=Facts(accelerator="gpu", devices=8, gpus=4),
    ),
    Rule(
        name="one-device-for-single",
        broken=lambda f: f.strategy == "single" and ((f.devices or 1) > 1 or (f.num_nodes or 1) > 1),
        message=lambda f: (
            f"strategy=single is one process, and trainer.devices={f.devices} x trainer.num_nodes={f.num_nodes} "
            "asks for more."
        ),
        fix=lambda f: "trainer.devices=1 trainer.num_nodes=1, or strategy=ddp",
        severity="error",
        example=Facts(strategy="single", devices=2, num_nodes=1),
    ),
    Rule(
        name="float16-on-cuda",
        broken=lambda f: f.precision == "16-mixed" and f.accelerator is not None and f.accelerator != "gpu",
        message=lambda f: (
            f"precision={f.precision} scales losses for float16 kernels that only CUDA has; "
            f"trainer.accelerator is {f.accelerator} here."
        ),
        fix=lambda f: "precision=bf16-mixed or precision=32-true",
        severity="error",
        example=Facts(precision="16-mixed", accelerator="cpu"),
    ),
    Rule(
        name="teacher-in-float32",
        broken=lambda f: f.precision == "bf16-true" and f.has_teacher is True,
        message=lambda f: (
            f"precision={f.precision} keeps the teacher of method={f.method} in bfloat16, where an average with "
            "momentum near 1 rounds to no change at all: the teacher would stand still."
        ),
        fix=lambda f: "precision=bf16-mixed",
        severity="error",
        example=Facts(precision="bf16-true", method="dino", has_teacher=True),
    ),
    Rule(
        name="local-views-unused",
        broken=lambda f: f.needs_local_views is False and bool(f.num_local_views),
        message=lambda f: (
            f"views.num_local_views={f.num_local_views} small crops are made and method={f.method} uses none."
        ),
        fix=lambda f: "views.num_local_views=0",
        severity="warning",
        example=Facts(method="byol", needs_local_views=False, num_local_views=8),
    ),
    Rule(
        name="negatives-within-micro-batch",
        broken=lambda f: f.contrasts_batch is True and (f.accumulate_grad_batches or 1) > 1,
        message=lambda f: (
            f"trainer.accumulate_grad_batches={f.accumulate_grad_batches}: method={f.method} contrasts images within a "
            f"micro-batch, {f.accumulate_grad_batches} times smaller than the global batch, so the loss is another one."
        ),
        fix=lambda f: "trainer.accumulate_grad_batches=1 with a smaller data.global_batch_size or more devices",
        severity="warning",
        example=Facts(method="simclr", contrasts_batch=True, accumulate_grad_batches=4),
    ),
)


def _largest_batch(facts: Facts) -> int:
    """The largest power of two of images that the data set holds, in equal shares."""
    shares = max(facts.shares or 1, 1)
    images = max((facts.num_images or 1) // shares, 1)
    return (1 << (images.bit_length() - 1)) * shares
