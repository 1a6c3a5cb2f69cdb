from __future__ import annotations

import logging
import warnings

import pytest
from lightning.pytorch.utilities.rank_zero import rank_zero_info, rank_zero_warn

from spt.reporting.quiet import quiet


@pytest.fixture(autouse=True)
def _restored_loggers() -> object:
    loggers = [logging.getLogger(name) for name in ("lightning", "lightning.pytorch", "lightning.fabric")]
    before = [(one.handlers[:], one.propagate, one.level) for one in loggers]
    yield
    for one, (handlers, propagate, level) in zip(loggers, before, strict=True):
        one.handlers[:], one.propagate = handlers, propagate
        one.setLevel(level)


def test_an_advert_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    quiet()
    rank_zero_info("Tip: for seamless cloud logging try another product")
    assert caplog.records == []


def test_a_librarys_warning_reaches_the_log_once(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    quiet()
    logging.getLogger("lightning.pytorch.trainer").warning("your disk is full")
    assert [record.getMessage() for record in caplog.records] == ["your disk is full"]
    assert "disk" not in capfd.readouterr().err


def test_warnings_that_nobody_can_act_on_are_dropped_and_others_are_not() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        quiet()
        rank_zero_warn("The 'train_dataloader' does not have many workers which may be a bottleneck.")
        rank_zero_warn("Your labels are all the same.")
    assert [str(warning.message) for warning in told] == ["Your labels are all the same."]
