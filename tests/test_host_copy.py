"""Waiting for a device no longer than needed; on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lightning import Callback, Trainer

from spt.host_copy import HostCopy
from tests.runs import METHODS, build, fit


@pytest.mark.gpu
def test_numbers_arrive_while_later_work_is_still_queued() -> None:
    large = torch.randn(8192, 8192, device="cuda")
    copy = HostCopy(torch.tensor([1.5, 2.5], device="cuda"))
    for _ in range(200):
        large = large @ large
    finished = torch.cuda.Event()
    finished.record()
    assert copy.read() == [1.5, 2.5]
    assert not finished.query()


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("method", METHODS)
def test_a_step_without_a_row_of_metrics_never_holds_up_the_device(method: str, tmp_path: Path) -> None:
    class Watch(Callback):
        def on_train_batch_start(self, trainer: Trainer, *_: object) -> None:
            # the last batch of an epoch becomes a row; from the first on, all between two steps is watched too
            torch.cuda.set_sync_debug_mode("default" if trainer.is_last_batch else "error")

        def on_exception(self, *_: object) -> None:
            torch.cuda.set_sync_debug_mode("default")

    words = ("trainer.accelerator=gpu", "trainer.log_every_n_steps=1000", "trainer.max_epochs=1", "probes=none")
    try:
        fit(build(method, tmp_path, *words), Watch())
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_numbers_of_a_host_tensor_are_read_as_they_are() -> None:
    assert HostCopy(torch.tensor([1.5, float("inf")])).read() == [1.5, float("inf")]
