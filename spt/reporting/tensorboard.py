"""TensorBoard, where its package is there."""

from __future__ import annotations

from importlib.util import find_spec

from lightning.pytorch.loggers import TensorBoardLogger

from spt.config.errors import ConfigError


def tensorboard_logger(*, folder: str) -> TensorBoardLogger:
    """Lightning's logger for TensorBoard, with its event files in <folder>/tensorboard.

    Raises:
        ConfigError: the package tensorboard is not installed.
    """
    if find_spec("tensorboard") is None:
        raise ConfigError(
            "logger=tensorboard was given, but the package tensorboard is not installed; run "
            "`pip install tensorboard`, or use logger=csv: metrics.csv is written in any case."
        )
    return TensorBoardLogger(save_dir=folder, name="tensorboard", version="")
