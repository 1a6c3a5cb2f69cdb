"""Every rule broken once and passed once, by facts that differ in one value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spt.config.check import broken_rules, check
from spt.config.errors import ConfigError
from spt.config.facts import Facts
from spt.config.rules import RULES

SOUND = Facts(
    method="ijepa", has_teacher=True, needs_tokens=True, needs_masks=True, needs_local_views=False,
    contrasts_batch=False, backbone="vit_micro", gives_tokens=True, patch_size=4, global_size=16, local_size=8,
    num_local_views=0, has_masks=True, context_tokens=3, target_tokens=2, largest_block=15, data="digits",
    num_images=1437, global_batch_size=128, devices=1, num_nodes=1, accumulate_grad_batches=1, accelerator="cpu",
    gpus=0, strategy="single", precision="32-true", max_epochs=20, max_steps=-1,
    learning_rate_warmups=(("optimizer.lr_schedule.warmup_epochs", 10),),
    other_warmups=(("method.teacher_temperature.warmup_epochs", 20),), momentums=(("method.momentum.start", 0.996),),
)  # fmt: skip

BROKEN_BY = {
    "global-crop-of-whole-patches": replace(SOUND, global_size=18),
    "local-crop-of-whole-patches": replace(SOUND, num_local_views=2, local_size=7, needs_local_views=True),
    "tokens-needed": replace(SOUND, gives_tokens=False),
    "masks-needed": replace(SOUND, has_masks=False),
    "masks-unused": replace(SOUND, needs_masks=False),
    "masks-fit-the-grid": replace(SOUND, context_tokens=15),
    "batch-divides-over-devices": replace(SOUND, accumulate_grad_batches=3),
    "batch-within-data": replace(SOUND, num_images=127, max_epochs=30),
    "warmup-within-run": replace(SOUND, learning_rate_warmups=(("optimizer.lr_schedule.warmup_epochs", 20.1),)),
    "schedule-within-run": replace(SOUND, other_warmups=(("method.teacher_temperature.warmup_epochs", 30),)),
    "images-present": replace(SOUND, image_folder="nowhere", image_folder_state="empty"),
    "momentum-within-unit": replace(SOUND, momentums=(("method.momentum.start", 1.01),)),
    "run-has-an-end": replace(SOUND, max_epochs=-1),
    "run-has-a-step": replace(SOUND, max_steps=0),
    "one-end-of-run": replace(SOUND, max_steps=221),
    "devices-present": replace(SOUND, accelerator="gpu"),
    "one-device-for-single": replace(SOUND, devices=2),
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


def test_a_sound_experiment_breaks_no_rule() -> None:
    assert broken_names(SOUND) == set()
    assert check(SOUND) == []


def test_unknown_facts_break_no_rule() -> None:
    assert broken_names(Facts()) == set()


@pytest.mark.parametrize("name", BROKEN_BY)
def test_a_rule_is_broken_by_the_value_it_is_about_and_by_no_other(name: str) -> None:
    assert broken_names(BROKEN_BY[name]) - ALSO_BROKEN.get(name, set()) == {name}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_broken_rule_says_what_to_type(rule) -> None:
    for facts in (BROKEN_BY[rule.name], rule.example):
        assert rule.broken(facts)
        assert "None" not in rule.message(facts) + rule.fix(facts) or facts is BROKEN_BY[rule.name]
        assert "=" in rule.fix(facts) or rule.fix(facts).startswith("~")


def test_all_broken_rules_are_reported_at_once() -> None:
    facts = replace(SOUND, global_size=18, precision="bf16-true", devices=2)
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
