"""Combinations that cannot work, or that do something else than they seem to: one row each.

To add one: append a row to the table it belongs to, break it once and pass it once in tests/config. A predicate sees
plain facts only, and a fact that is None breaks nothing. `python scripts/list_rules.py` prints all rows.
"""

from __future__ import annotations

from spt.config.deepspeed_rules import DEEPSPEED_RULES
from spt.config.device_rules import DEVICE_RULES
from spt.config.facts import Facts
from spt.config.input_rules import INPUT_RULES
from spt.config.resume_rules import RESUME_RULES
from spt.config.rule import Rule
from spt.config.start_rules import START_RULES
from spt.config.strategy_rules import STRATEGY_RULES


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


_FEW_TOKENS = 9  # a grid of 3 x 3


def _outside_unit(facts: Facts) -> list[tuple[str, float]]:
    return [(key, value) for key, value in facts.momentums if not 0.0 <= value <= 1.0]


def _likely_momentum(key: str, value: float) -> float:
    """What was meant: a teacher whose momentum begins at 1 would never move."""
    if value < 0:
        return 0.0
    return 1.0 if key.endswith(".end") else 0.996


def _length_of_run(facts: Facts) -> str:
    if facts.total_steps is None:
        return f"trainer.max_epochs={facts.max_epochs}"
    return f"{facts.total_steps} optimizer steps"


EXPERIMENT_RULES: tuple[Rule, ...] = (
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
        name="tokens-to-compare",
        broken=lambda f: f.num_tokens is not None and 0 < f.num_tokens < _FEW_TOKENS,
        message=lambda f: (
            f"views.global_size={f.global_size} in patches of backbone.patch_size={f.patch_size} is "
            f"{f.num_tokens} token{'s' if f.num_tokens != 1 else ''} an image: attention has little to compare."
        ),
        fix=lambda f: f"backbone.patch_size={max(1, (f.global_size or 0) // 4)}, or larger images",
        severity="warning",
        example=Facts(global_size=32, patch_size=16),
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
        name="masks-on-the-backbones-grid",
        broken=lambda f: (
            f.needs_masks is True
            and f.position_size is not None
            and f.global_size is not None
            and f.position_size != f.global_size
        ),
        message=lambda f: (
            f"backbone.image_size={f.position_size} and views.global_size={f.global_size} make two grids of patches: "
            f"method={f.method} would look up the positions of one on the other."
        ),
        fix=lambda f: f"backbone.image_size={f.global_size}",
        severity="error",
        example=Facts(method="ijepa", needs_masks=True, position_size=224, global_size=448),
    ),
    Rule(
        name="masks-fit-the-grid",
        broken=lambda f: (
            f.num_tokens is not None
            and max((f.context_tokens or 0) + (f.target_tokens or 0), f.largest_block or 0) > f.num_tokens
        ),
        message=lambda f: (
            f"masks ask for {f.context_tokens} context tokens (masks.min_keep)"
            + (
                f" beside target blocks of at least {f.target_tokens}, and for blocks of up to {f.largest_block}"
                if f.target_tokens is not None
                else ""
            )
            + f"; views.global_size={f.global_size} in patches of {f.patch_size} has {f.num_tokens} tokens in all."
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
        fix=lambda f: (
            "trainer.accumulate_grad_batches=1"
            if (f.accumulate_grad_batches or 0) < 1
            else f"data.global_batch_size={_nearest_multiple(f.global_batch_size, f.shares)}"
        ),
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
        fix=lambda f: " ".join(f"{key}={_likely_momentum(key, value):g}" for key, value in _outside_unit(f)),
        severity="error",
        example=Facts(momentums=(("method.momentum.start", 1.996),)),
    ),
    Rule(
        name="numbers-large-enough",
        broken=lambda f: bool(f.too_small),
        message=lambda f: (
            ", ".join(f"{key}={value:g} is below {least}, the least" for key, value, least in f.too_small)
            + " that means anything."
        ),
        fix=lambda f: " ".join(f"{key}={least}" for key, _, least in f.too_small),
        severity="error",
        example=Facts(too_small=(("probes.knn.k", 0, 1),)),
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
    Rule(
        name="enough-global-views",
        broken=lambda f: (
            f.min_global_views is not None
            and f.num_global_views is not None
            and f.num_global_views < f.min_global_views
        ),
        message=lambda f: (
            f"views.global_views holds {f.num_global_views} view of an image, and method={f.method} compares at least "
            f"{f.min_global_views}."
        ),
        fix=lambda f: f"views={f.method}",
        severity="error",
        example=Facts(method="simclr", min_global_views=2, num_global_views=1),
    ),
    Rule(
        name="lars-for-transformers",
        broken=lambda f: f.update_rule == "lars" and f.gives_tokens is True,
        message=lambda f: (
            f"optimizer.rule={f.update_rule} is made for ResNets and large batches; with the transformer "
            f"backbone={f.backbone} and small ones all embeddings tend to become alike."
        ),
        fix=lambda f: "optimizer.rule=adamw optimizer.lr=0.001",
        severity="warning",
        example=Facts(update_rule="lars", backbone="vit_micro", gives_tokens=True),
    ),
    Rule(
        name="images-for-batch-norm",
        broken=lambda f: (
            f.has_batch_norm is True
            and f.images_per_device == 1
            and not (f.batch_norm_scope == "global" and (f.world_size or 1) > 1)
        ),
        message=lambda f: (
            f"data.global_batch_size={f.global_batch_size} leaves one image to each of {f.shares} micro-batches, and "
            f"BatchNorm in method={f.method} or backbone={f.backbone} needs several for a variance."
        ),
        fix=lambda f: f"data.global_batch_size={2 * (f.shares or 1)}" + _or_global_batch_norm(f),
        severity="error",
        example=Facts(
            method="simclr",
            backbone="resnet50",
            has_batch_norm=True,
            global_batch_size=8,
            devices=8,
            num_nodes=1,
            accumulate_grad_batches=1,
        ),
    ),
)

RULES: tuple[Rule, ...] = (
    *EXPERIMENT_RULES,
    *INPUT_RULES,
    *START_RULES,
    *DEVICE_RULES,
    *STRATEGY_RULES,
    *DEEPSPEED_RULES,
    *RESUME_RULES,
)


def _or_global_batch_norm(facts: Facts) -> str:
    return " or batch_norm=global" if (facts.world_size or 1) > 1 else ""


def _largest_batch(facts: Facts) -> int:
    """The largest power of two of images that the data set holds, in equal shares."""
    shares = max(facts.shares or 1, 1)
    images = max((facts.num_images or 1) // shares, 1)
    return (1 << (images.bit_length() - 1)) * shares
