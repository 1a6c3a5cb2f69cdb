"""Ranks agree on their folder, or say so."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest
from lightning import LightningModule, Trainer

from spt.config.errors import ConfigError
from spt.launch.callback import Rank
from spt.strategies.single import SingleStrategy

Value = TypeVar("Value")


class UnderRankZero(SingleStrategy):
    """A strategy whose rank 0 is another process, with a folder of its own."""

    def broadcast(self, obj: Value, src: int = 0) -> Value | str:  # type: ignore[override]
        return "/runs/of/rank/zero"


def trainer(folder: Path, strategy: SingleStrategy) -> Trainer:
    """A trainer that writes nothing."""
    return Trainer(
        accelerator="cpu", devices=1, strategy=strategy, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip


def test_a_folder_that_is_not_rank_zeros_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"writes to {tmp_path}, and rank 0 to /runs/of/rank/zero") as error:
        Rank(tmp_path).setup(trainer(tmp_path, UnderRankZero()), LightningModule(), "fit")
    assert "try: hydra.run.dir=/runs/of/rank/zero" in str(error.value)


def test_the_folder_of_a_single_process_is_its_own(tmp_path: Path) -> None:
    Rank(tmp_path).setup(trainer(tmp_path, SingleStrategy()), LightningModule(), "fit")
