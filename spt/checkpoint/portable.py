"""What makes a checkpoint independent of the strategy and of the number of processes that wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast

import torch
from lightning import LightningModule
from lightning.pytorch.strategies import Strategy
from torch import Tensor
from torch.optim import Optimizer

from spt.checkpoint.background import BackgroundWriter
from spt.checkpoint.folder import remove
from spt.checkpoint.progress import rescale
from spt.checkpoint.reading import Stored, open_checkpoint
from spt.checkpoint.state import (
    Entry,
    check_optimizer_names,
    check_shapes,
    keeps_steps_on_cpu,
    like,
    load_groups,
    load_optimizer,
    load_weights,
    named_weights,
    optimizer_state,
    restored,
    shapes,
    trainable,
)
from spt.checkpoint.together import process, together
from spt.checkpoint.writing import OPTIMIZERS, moment_key, weight_key, write_file, write_folder
from spt.config.errors import CheckpointError
from spt.distributed.replicas import average_running_statistics


class Portable(Strategy):
    """Saves and restores by name, in front of one of Lightning's strategies.

    Whatever wrote a checkpoint, a file or a folder, any strategy with this class goes on from it, on any number of
    processes: weights and optimizer state are whole tensors by name, and each process takes its part.

    Attributes:
        checkpoint_layout: what is written: one file, gathered in the host memory of the first process; or a folder,
            into which every process writes its shards.
        background_writer: writes files beside training; None, and for folders, training waits.
    """

    checkpoint_layout: Literal["file", "folder"] = "file"
    background_writer: BackgroundWriter | None = None
    _stored: Stored | None = None

    @property
    def restore_checkpoint_after_setup(self) -> bool:
        """Always: networks are divided by then, and the order of events is the same under every strategy."""
        return True

    @property
    def lightning_restore_optimizer(self) -> bool:
        """Always: through `load_optimizer_state_dict`."""
        return True

    @property
    def _module(self) -> LightningModule:
        assert self.lightning_module is not None, "Lightning has connected it before anything is saved or restored"
        return self.lightning_module

    def lightning_module_state_dict(self) -> dict[str, Tensor]:
        """Weights and buffers, live; called by all processes."""
        average_running_statistics(self._module)
        return named_weights(self._module)

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, object]:  # type: ignore[override]  # Lightning's is too narrow
        """What the optimizer keeps, live, by names of parameters."""
        return optimizer_state(self._module, optimizer)

    def save_checkpoint(
        self, checkpoint: dict[str, object], filepath: str | Path, storage_options: object | None = None
    ) -> None:
        """Writes what Lightning has collected, whole or not at all; called by all processes.

        With a writer in the background it returns once there is a copy.

        Raises:
            CheckpointError: it could not be written.
        """
        path = Path(self.broadcast(str(filepath)))
        if self.checkpoint_layout == "folder":
            write_folder(checkpoint, path)
        else:
            write_file(checkpoint, path, self.background_writer)

    def remove_checkpoint(self, filepath: str | Path) -> None:
        """Deletes a file or a folder, on the first process."""
        if process() == 0:
            remove(Path(filepath))

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> dict[str, object]:
        """All but weights and optimizer state, which follow; nothing that is in the file is run.

        Raises:
            CheckpointError: it is not there, is incomplete or damaged, or is not one of this project's.
        """
        path = Path(self.broadcast(str(checkpoint_path)))

        def verify() -> None:
            open_checkpoint(path)

        together(verify, "read", path, on_first=True)
        self._stored = open_checkpoint(path, verify=False)  # the first process has looked at every byte
        trainer = self._module.trainer
        return rescale(self._stored.rest, path, accumulation=trainer.accumulate_grad_batches)

    def load_model_state_dict(self, checkpoint: Mapping[str, object], strict: bool = True) -> None:
        """Fills the networks.

        Raises:
            CheckpointError: the checkpoint is of other networks; lists what differs.
        """
        stored = self._opened()
        if stored.is_folder:
            targets = named_weights(self._module)
            check_shapes(shapes(targets), {name: tensor.shape for name, tensor in stored.weights.items()})
            stored.read_into({weight_key(name): tensor for name, tensor in targets.items()})
        else:
            load_weights(self._module, stored.read_weights(stored.weights))

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, object]) -> None:
        """Fills the optimizer.

        Raises:
            CheckpointError: the state is of other parameters, or there is none.
        """
        stored = self._opened()
        saved = cast("list[dict[str, object]]", stored.rest.get(OPTIMIZERS, []))
        if len(saved) != len(self.optimizers):
            raise CheckpointError(
                f"{stored.path} holds the state of {len(saved)} optimizers, and this run has {len(self.optimizers)}: "
                "it was written for its weights alone. Start from those with backbone.init_from."
            )
        for index, (optimizer, state) in enumerate(zip(self.optimizers, saved, strict=True)):
            if stored.is_folder:
                _read_optimizer(stored, index, self._module, optimizer, state)
            else:
                load_optimizer(self._module, optimizer, state)
        self._stored = None

    def _opened(self) -> Stored:
        assert self._stored is not None, "Lightning reads the checkpoint before it restores from it"
        return self._stored


@torch.no_grad()
def _read_optimizer(
    stored: Stored, index: int, module: LightningModule, optimizer: Optimizer, saved: Mapping[str, object]
) -> None:
    """Fills an optimizer from a folder, each process reading its shards only."""
    parameters = trainable(optimizer, module)
    counters = cast("Mapping[str, Entry]", saved["state"])
    check_optimizer_names(counters, parameters)
    targets: dict[str, Tensor] = {}
    optimizer.state.clear()
    for name, small in counters.items():
        parameter = parameters[name]
        entry: Entry = {
            key: restored(value, parameter, steps_on_cpu=key == "step" and keeps_steps_on_cpu(optimizer))
            for key, value in small.items()
        }
        prefix = moment_key(index, name, "")
        for key in [key for key in stored.tensors if key.startswith(prefix)]:
            targets[key] = like(parameter, stored.tensors[key].dtype)
            entry[key.removeprefix(prefix)] = targets[key]
        optimizer.state[parameter] = entry
    stored.read_into(targets)
    load_groups(optimizer, saved, {parameter: name for name, parameter in parameters.items()})
