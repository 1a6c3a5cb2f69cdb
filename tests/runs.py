"""Whole runs on networks and data so small that they take a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lightning import Callback, LightningModule, Trainer
from omegaconf import DictConfig
from torch import Tensor

import spt
from spt.config.tree import project_tree
from spt.run import Run, prepare

METHODS = project_tree().options("method")
STEPS_PER_EPOCH, EPOCHS, BATCH_SIZE, NUM_VAL = 3, 2, 8, 14

# narrow heads; a method that is not named here runs with its own
SMALL: dict[str, tuple[str, ...]] = {
    "byol": ("method.head.hidden_dim=12", "method.predictor.hidden_dim=14", "method.projection_dim=6"),
    "dino": (
        "method.head.hidden_dim=12", "method.head.bottleneck_dim=6", "method.num_prototypes=10",
        "views.num_local_views=2",
    ),
    "ijepa": ("method.predictor.predictor_dim=8", "method.predictor.depth=1", "masks.min_keep=2"),
    "simclr": ("method.head.hidden_dim=12", "method.head.output_dim=6"),
}  # fmt: skip
DATA = (
    "data=fake", "data.image_size=16", "data.num_images=26", "data.source.num_val_images=14", "data.bank_size=10",
    "data.global_batch_size=8", "data.evaluation_batch_size=9",
)  # fmt: skip
VIT = ("backbone=vit_micro", "backbone.embed_dim=16", "backbone.depth=1")
RUN = (
    "optimizer.lr_schedule.warmup_epochs=0", "trainer.accelerator=cpu", "trainer.max_epochs=2",
    "trainer.log_every_n_steps=1",
)  # fmt: skip
NO_PICTURES = ("~callbacks.pictures",)  # drawing takes longer than all training here
FEW_PICTURES = (
    "callbacks.pictures.every_n_epochs=null", "callbacks.pictures.num_images=2",
    "callbacks.pictures.painters.views.num_images=2",
)  # fmt: skip


def compose(
    method: str,
    folder: Path,
    *words: str,
    data: Sequence[str] = DATA,
    backbone: Sequence[str] = VIT,
    has_pictures: bool = False,
) -> DictConfig:
    """A small experiment, six steps of eight random images; further words win."""
    small = [f"method={method}", *data, *backbone, *RUN, *SMALL.get(method, ())]
    small += FEW_PICTURES if has_pictures else NO_PICTURES
    # nothing may be given twice on a command line
    given = {word.partition("=")[0] for word in words}
    kept = [word for word in small if word.partition("=")[0] not in given]
    return spt.compose(*kept, *words, f"hydra.run.dir={folder}")


def build(
    method: str,
    folder: Path,
    *words: str,
    data: Sequence[str] = DATA,
    backbone: Sequence[str] = VIT,
    has_pictures: bool = False,
) -> Run:
    """The small experiment, built."""
    return prepare(compose(method, folder, *words, data=data, backbone=backbone, has_pictures=has_pictures))


def fit(run: Run, *callbacks: Callback) -> Run:
    """The run once it has been trained, with further callbacks after its own; nothing is drawn or summed up."""
    run.trainer.callbacks.extend(callbacks)  # type: ignore[attr-defined]
    run.trainer.fit(run.module, datamodule=run.data, ckpt_path=run.checkpoint)
    return run


def state(run: Run) -> dict[str, Tensor]:
    """A copy of every parameter and buffer of the method."""
    return {name: value.detach().clone() for name, value in run.module.method.state_dict().items()}


class Losses(Callback):
    """Keeps the loss of every micro-batch."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: object, *_: object) -> None:
        assert isinstance(outputs, dict)
        self.values.append(float(outputs["loss"]))


class Saver(Callback):
    """Saves a checkpoint after some step, in the hook in which Lightning saves its own within an epoch."""

    def __init__(self, step: int, file: Path) -> None:
        self.step, self.file = step, file
        self.has_saved = False

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        # once: the next micro-batch of the step after has the same number, and the file appears in the background
        if trainer.global_step == self.step and not self.has_saved:
            self.has_saved = True
            trainer.save_checkpoint(self.file)
