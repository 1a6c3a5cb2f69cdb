"""Schedules against the numbers of the published codes."""

from __future__ import annotations

import pytest

from spt.schedules import Cosine, EpochWarmup, Linear, WarmupCosine
from spt.types import Progress


def at(step: int, total: int = 50, per_epoch: int = 5) -> Progress:
    return Progress(step, total, per_epoch)


@pytest.mark.parametrize(
    ("step", "lr"),
    [(0, 0.0), (1, 2.222222e-4), (9, 0.002), (10, 0.002), (11, 0.001996918875), (30, 0.0010005), (49, 4.081124934e-6)],
)
def test_dino_learning_rate_equals_the_official_array(step: int, lr: float) -> None:
    """Traps 54 and 55."""
    schedule = WarmupCosine(start=0.0, peak=0.002, end=1e-6, warmup_epochs=2, counting="inclusive")
    assert schedule(at(step)) == pytest.approx(lr, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("step", "value"), [(0, 0.04), (1, 0.04035518888), (25, 0.22), (49, 0.3996448111)])
def test_dino_weight_decay_equals_the_official_array(step: int, value: float) -> None:
    assert Cosine(start=0.04, end=0.4, counting="from_zero")(at(step)) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("step", "value"), [(0, 0.996), (1, 0.9960039465), (25, 0.998), (49, 0.9999960535)])
def test_dino_momentum_equals_the_official_array(step: int, value: float) -> None:
    assert Cosine(start=0.996, end=1.0, counting="from_zero")(at(step)) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("step", "value"), [(0, 0.996), (1, 0.9960009869), (50, 0.998), (99, 0.9999990131), (100, 1.0)]
)
def test_byol_tau_equals_the_papers_formula(step: int, value: float) -> None:
    assert Cosine(start=0.996, end=1.0, counting="from_zero")(at(step, 100)) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("official_step", "lr"),
    [(1, 2.8e-4), (9, 9.2e-4), (10, 1e-3), (11, 9.996957181e-4), (55, 5.005e-4), (100, 1e-6)],
)
def test_ijepa_learning_rate_equals_the_official_schedule_which_counts_before_use(
    official_step: int, lr: float
) -> None:
    """Traps 54 and 55: the authors' step n is our optimizer step n - 1.

    Trap 56: the last step is at the end of the cosine.
    """
    schedule = WarmupCosine(start=2e-4, peak=1e-3, end=1e-6, warmup_epochs=2, counting="from_one")
    assert schedule(at(official_step - 1, 100)) == pytest.approx(lr, rel=1e-9)


@pytest.mark.parametrize(("official_step", "value"), [(1, 0.04008881913), (50, 0.22), (100, 0.4)])
def test_ijepa_weight_decay_equals_the_official_schedule(official_step: int, value: float) -> None:
    schedule = Cosine(start=0.04, end=0.4, counting="from_one")
    assert schedule(at(official_step - 1, 100)) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("step", "value"), [(0, 0.996), (1, 0.99604), (50, 0.998), (99, 0.99996)])
def test_ijepa_momentum_is_the_official_straight_line(step: int, value: float) -> None:
    assert Linear(start=0.996, end=1.0, counting="from_zero")(at(step, 100)) == pytest.approx(value, rel=1e-12)


def test_simclr_and_byol_start_at_zero_and_peak_right_after_the_warmup() -> None:
    """Trap 55."""
    schedule = WarmupCosine(start=0.0, peak=0.3, end=0.0, warmup_epochs=2, counting="from_zero")
    assert [schedule(at(step)) for step in (0, 5, 10)] == pytest.approx([0.0, 0.15, 0.3])
    assert 0.0 < schedule(at(49)) < 0.3 * 0.005


def test_warmup_counts_passes_over_the_data_in_optimizer_steps() -> None:
    """Trap 54: half an epoch of 8 steps is 4 steps."""
    schedule = WarmupCosine(start=0.0, peak=1.0, end=0.0, warmup_epochs=0.5, counting="from_zero")
    assert [schedule(at(step, 80, 8)) for step in (2, 4)] == pytest.approx([0.5, 1.0])


def test_momentum_changes_at_every_step_of_an_epoch() -> None:
    """Trap 7."""
    schedule = Cosine(start=0.99, end=1.0, counting="from_zero")
    assert len({schedule(at(step, 100, 10)) for step in range(10)}) == 10


@pytest.mark.parametrize(("epoch", "value"), [(0, 0.04), (1, 0.055), (2, 0.07), (3, 0.07), (9, 0.07)])
def test_teacher_temperature_rises_once_an_epoch_as_dinos(epoch: int, value: float) -> None:
    schedule = EpochWarmup(start=0.04, end=0.07, warmup_epochs=3)
    assert [schedule(at(5 * epoch + step)) for step in (0, 4)] == pytest.approx([value, value])


def test_a_run_shorter_than_the_temperature_warmup_ends_on_the_way() -> None:
    """Trap 24."""
    schedule = EpochWarmup(start=0.04, end=0.07, warmup_epochs=31)
    assert schedule(at(24, 25, 5)) == pytest.approx(0.04 + 0.03 * 4 / 30)
