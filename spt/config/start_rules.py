"""Rules about the weights that a backbone starts from."""

from __future__ import annotations

from spt.config.facts import Facts
from spt.config.rule import Rule


def _is_frozen_throughout(facts: Facts) -> bool:
    steps, total = facts.freeze_steps, facts.total_steps
    return steps is not None and total is not None and steps >= total > 0


START_RULES: tuple[Rule, ...] = (
    Rule(
        name="weights-to-start-from-present",
        broken=lambda f: f.missing_weights is not None,
        message=lambda f: (
            f"backbone.init_from={f.missing_weights} is no file or folder of this machine"
            + (", and nothing is downloaded." if "://" in (f.missing_weights or "") else ".")
        ),
        fix=lambda f: "backbone.init_from=<a file of weights, or a run folder>, or backbone.init_from=null",
        severity="error",
        example=Facts(missing_weights="dino_deitsmall16_pretrain.pth"),
    ),
    Rule(
        name="frozen-backbone-has-weights",
        broken=lambda f: bool(f.freeze_steps) and f.has_weights is False,
        message=lambda f: (
            f"backbone.freeze_steps={f.freeze_steps} keeps the backbone as it is at first, and its weights are random."
        ),
        fix=lambda f: "backbone.freeze_steps=null, or backbone.init_from=<a file of weights>",
        severity="warning",
        example=Facts(freeze_steps=100, has_weights=False),
    ),
    Rule(
        name="backbone-trains-at-all",
        broken=lambda f: _is_frozen_throughout(f),
        message=lambda f: (
            f"backbone.freeze_steps={f.freeze_steps} is the whole run of {f.total_steps} optimizer steps: the backbone "
            "ends as it began."
        ),
        fix=lambda f: f"backbone.freeze_steps={(f.total_steps or 0) // 10}, or a longer run",
        severity="warning",
        example=Facts(freeze_steps=100, has_weights=True, max_steps=50, max_epochs=-1),
    ),
    Rule(
        name="frozen-backbone-without-deepspeed",
        broken=lambda f: bool(f.freeze_steps) and f.strategy_kind == "deepspeed",
        message=lambda f: (
            f"backbone.freeze_steps={f.freeze_steps} drops gradients of the backbone, and strategy={f.strategy} steps "
            "with gradients that it keeps elsewhere: the backbone would move."
        ),
        fix=lambda f: "strategy=fsdp2, or backbone.freeze_steps=null",
        severity="error",
        example=Facts(freeze_steps=100, has_weights=True, strategy="deepspeed_stage_3", strategy_kind="deepspeed"),
    ),
)
