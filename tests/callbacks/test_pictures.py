from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lightning import Callback, LightningModule, Trainer

from spt.callbacks.pictures import Pictures
from spt.reporting.quiet import quiet
from tests.callbacks.tiny import TinyModule, fit


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quiet()


def pictures(folder: Path) -> Pictures:
    return Pictures(folder=str(folder), mean=[0.5, 0.4, 0.3], std=[0.2, 0.3, 0.4], patch_size=None, num_images=2)


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def test_a_run_leaves_a_picture_of_its_first_batch(tmp_path: Path) -> None:
    fit(TinyModule(), tmp_path, [pictures(tmp_path)])
    assert is_png(tmp_path / "plots" / "views.png")


def test_pictures_draw_no_random_number(tmp_path: Path) -> None:
    class Compare(Callback):
        def on_train_batch_start(
            self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int
        ) -> None:
            self.states.append(torch.random.get_rng_state())

        def __init__(self) -> None:
            self.states: list[torch.Tensor] = []

    compare = Compare()
    fit(TinyModule(), tmp_path, [pictures(tmp_path), compare], max_epochs=1)
    assert all(torch.equal(state, compare.states[0]) for state in compare.states)
