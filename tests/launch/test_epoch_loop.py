"""Lightning's loop without its collective before every step."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop

from spt.launch.epoch_loop import EpochLoop
from tests.runs import build


def test_the_hook_left_out_is_one_that_lightning_calls() -> None:
    assert callable(_TrainingEpochLoop._broadcast_sigterm_tensor)
    assert "_broadcast_sigterm_tensor" in _TrainingEpochLoop.advance.__code__.co_names


def test_a_run_uses_the_loop_and_keeps_its_limits(tmp_path: Path) -> None:
    run = build("simclr", tmp_path, "trainer.max_steps=4")
    loop = run.trainer.fit_loop.epoch_loop
    assert isinstance(loop, EpochLoop)
    assert loop.max_steps == 4
