"""TensorBoard, where its package is there."""

from __future__ import annotations

from importlib.util import find_spec

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import TensorBoardLogger

from spt.config.errors import ConfigError
from spt.reporting.picture import Picture


class EventFiles(TensorBoardLogger):
    """Lightning's logger for TensorBoard, which shows pictures too."""

    @rank_zero_only
    def log_picture(self, picture: Picture, step: int) -> None:
        """Shows a picture under pictures/<name>, with a slider over its steps."""
        self.experiment.add_image(f"pictures/{picture.name}", picture.pixels, step, dataformats="HWC")


def tensorboard_logger(*, folder: str) -> EventFiles:
    """A logger for TensorBoard, with its event files in <folder>/tensorboard.

    Raises:
        ConfigError: the package tensorboard is not installed.
    """
    if find_spec("tensorboard") is None:
        raise ConfigError(
            "logger=tensorboard was given, but the package tensorboard is not installed; run "
            "`pip install tensorboard`, or use logger=csv: metrics.csv is written in any case."
        )
    # hp_metric would be a curve of its own that says nothing
    return EventFiles(save_dir=folder, name="tensorboard", version="", default_hp_metric=False)
