"""A config that another process reads is the config that was checked."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError

import spt
from spt.config.handover import read_config, run_choices, run_folder, start_log, write_config


@pytest.fixture
def _log() -> Iterator[None]:
    """The root logger as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_config_comes_out_as_it_went_in(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b, c=d'
    cfg = spt.compose("method=dino", "trainer.devices=1", f"hydra.run.dir='{folder}'")
    choices = run_choices()
    text = write_config(cfg)
    spt.compose("method=simclr")  # another run in between
    read = read_config(text)
    assert OmegaConf.to_container(read) == OmegaConf.to_container(cfg, resolve=True)
    assert run_folder() == str(folder)
    assert run_choices() == choices
    assert choices["method"] == "dino"


def test_a_config_that_was_read_takes_no_new_keys() -> None:
    read = read_config(write_config(spt.compose()))
    with pytest.raises(ConfigAttributeError):
        _ = read.trainer.device


@pytest.mark.usefixtures("_log")
def test_only_rank_zero_writes_the_log(tmp_path: Path) -> None:
    read_config(write_config(spt.compose(f"hydra.run.dir={tmp_path}")))
    start_log(is_rank_zero=False)
    logging.getLogger("spt").warning("from another rank")
    assert not (tmp_path / "train.log").exists()
    start_log(is_rank_zero=True)
    logging.getLogger("spt").warning("from rank 0")
    assert "from rank 0" in (tmp_path / "train.log").read_text()
    for handler in logging.getLogger().handlers:
        handler.close()
