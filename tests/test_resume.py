"""A resumed run equals the uninterrupted one, bit for bit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from spt.probes.linear import LinearProbe
from spt.run import Run
from tests.runs import METHODS, Losses, Saver, build, fit, state

# drop-path at work, and a center, teacher and schedules that move
DEEP = ("backbone=vit_micro", "backbone.embed_dim=16", "backbone.depth=2", "backbone.drop_path=0.5")
MID_EPOCH, EPOCH_END = 2, 3  # of 2 epochs of 3 steps


class Outcome(NamedTuple):
    """Everything that must be equal at the end of a run."""

    losses: list[float]
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    probe: dict[str, Tensor]


def outcome(run: Run, losses: Losses) -> Outcome:
    (optimizer,) = run.trainer.optimizers
    (probe,) = [callback for callback in run.trainer.callbacks if isinstance(callback, LinearProbe)]  # type: ignore[attr-defined]
    moments = {
        f"{index}.{name}": torch.as_tensor(value)
        for index, entry in optimizer.state_dict()["state"].items()
        for name, value in entry.items()
    }
    return Outcome(losses.values, state(run), moments, probe.state_dict())


def finish(method: str, folder: Path, *words: str, saver: Saver | None = None) -> Outcome:
    """Trains to the end."""
    losses = Losses()
    run = build(method, folder, *words, backbone=DEEP)
    return outcome(fit(run, losses, *([] if saver is None else [saver])), losses)


def assert_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def assert_continues(resumed: Outcome, whole: Outcome, *, done: int) -> None:
    """The rest of the losses, and everything at the end."""
    assert resumed.losses == whole.losses[done:]
    assert_equal(resumed.weights, whole.weights)
    assert_equal(resumed.optimizer, whole.optimizer)
    assert_equal(resumed.probe, whole.probe)


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path: Path, method: str) -> None:
    """Traps 19, 86 and 87: losses, all weights, teacher, center, moments and probe, within and between epochs."""
    mid_epoch = tmp_path / "mid.ckpt"
    whole = finish(
        method, tmp_path / "whole", "callbacks.checkpoint.keep_last=-1", saver=Saver(MID_EPOCH, mid_epoch)
    )  # fmt: skip
    (epoch_end,) = (tmp_path / "whole" / "checkpoints").glob(f"*step{EPOCH_END:08d}.ckpt")
    assert len(set(whole.losses)) == 6
    for done, file in ((MID_EPOCH, mid_epoch), (EPOCH_END, epoch_end)):
        resumed = finish(method, tmp_path / f"from{done}", f"resume={file}")
        assert_continues(resumed, whole, done=done)


def test_workers_that_read_ahead_change_nothing_about_a_resume(tmp_path: Path) -> None:
    """Traps 48, 86 and 87: two workers, within an epoch and within an optimizer step of two micro-batches."""
    words = ("trainer.accumulate_grad_batches=2", "data.num_workers=2")
    file = tmp_path / "mid.ckpt"
    whole = finish("ijepa", tmp_path / "whole", words[0], saver=Saver(MID_EPOCH, file))
    resumed = finish("ijepa", tmp_path / "resumed", *words, f"resume={file}")
    assert_continues(resumed, whole, done=2 * MID_EPOCH)


def test_the_speed_of_a_run_that_goes_on_within_an_epoch_is_of_its_own_steps(tmp_path: Path) -> None:
    file = tmp_path / "mid_epoch.ckpt"
    fit(build("simclr", tmp_path / "first", "probes=none"), Saver(MID_EPOCH, file))
    resumed = build("simclr", tmp_path / "second", "probes=none", f"resume={file}")
    started_at = time.perf_counter()
    fit(resumed)
    assert 0 < resumed.throughput.seconds < time.perf_counter() - started_at
