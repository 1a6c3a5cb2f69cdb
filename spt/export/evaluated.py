"""The evaluated network of a run: what it is, and its weights one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from spt.backbones.backbone import Backbone
from spt.backbones.recipe import TimmRecipe
from spt.checkpoint.folder import SUFFIX, complete_checkpoints, newest
from spt.checkpoint.origin import Origin, evaluated_network, evaluated_weights, origin
from spt.checkpoint.reading import Stored, Tensors, open_checkpoint
from spt.checkpoint.resume import CHECKPOINTS, is_run_folder
from spt.checkpoint.state import check_shapes
from spt.config.build import rebuild_backbone
from spt.config.errors import CheckpointError, ConfigError
from spt.config.tree import Plain
from spt.config.trust import parse_stored


class Inputs(NamedTuple):
    """Images as the network was evaluated on them.

    Attributes:
        size: pixels of a side.
        crop: side of the central crop as a share of the resized image's shorter side.
        mean, std: of each channel in [0, 1], subtracted and divided by.
    """

    size: int
    crop: float
    mean: list[float]
    std: list[float]


class Evaluated:
    """The network that the method of a run evaluates, on disk.

    Args:
        path: a run folder, or a checkpoint.
        checkpoint: of a run folder: "last", "best", or the name of one.
        packages: beyond spt's own that the run's config may name.

    Attributes:
        origin: the run that wrote it.
        network: student or teacher.
        inputs: images as it was evaluated on them.
        recipe: how plain timm builds it for such images.
        embed_dim: D.
        tensors: shape and type of every weight and buffer, by its name in timm.

    Raises:
        CheckpointError: there is no such checkpoint, it is damaged, or of another network than it says.
        ConfigError: the config that it holds names code that is not trusted, or timm has no such network.
    """

    def __init__(self, path: Path, *, checkpoint: str, packages: Sequence[str]) -> None:
        self._stored: Stored = open_checkpoint(find_checkpoint(path, checkpoint))
        self.origin: Origin = origin(self._stored)
        self._config = parse_stored(self.origin.config, packages=packages)
        self.network = evaluated_network(self._stored)
        self.inputs = _inputs(self._config)
        with torch.device("meta"):  # shapes alone
            backbone = rebuild_backbone(self._config)
        self._names = evaluated_weights(self._stored)
        stored = {name: self._stored.weights[key] for name, key in self._names.items()}
        expected = {name: tensor.shape for name, tensor in backbone.network.state_dict().items()}
        check_shapes(expected, {name: tensor.shape for name, tensor in stored.items()})
        self.recipe: TimmRecipe = backbone.recipe().at(self.inputs.size)
        self.embed_dim = backbone.embed_dim
        self.tensors: dict[str, Tensors] = dict(stored)
        if self.has_resampled_positions:
            shape = self._resampled(torch.empty(stored["pos_embed"].shape, device="meta")).shape
            self.tensors["pos_embed"] = Tensors(shape, stored["pos_embed"].dtype)

    @property
    def path(self) -> Path:
        """Of the checkpoint."""
        return self._stored.path

    @property
    def has_resampled_positions(self) -> bool:
        """Whether images were evaluated on another grid of patches than the positions were made for."""
        positions = self.recipe.positions
        return positions is not None and positions.grid != self.recipe.grid(self.inputs.size)

    def read(self, name: str) -> Tensor:
        """One weight or buffer, by its name in timm."""
        (tensor,) = self._stored.read_weights([self._names[name]]).values()
        return self._resampled(tensor) if name == "pos_embed" and self.has_resampled_positions else tensor

    def build(self) -> nn.Module:
        """The network as plain timm builds it, in evaluation mode."""
        network = self.recipe.build()
        network.load_state_dict({name: self.read(name) for name in self.tensors}, strict=True)
        return network.eval()

    def build_backbone(self, drop_path: float = 0.0) -> Backbone:
        """The network as this project builds it, in evaluation mode.

        Args:
            drop_path: rate of stochastic depth at the last block, should it be trained further.
        """
        backbone = rebuild_backbone(self._config, drop_path=drop_path)
        stored = self._stored.read_weights(self._names.values())
        backbone.network.load_state_dict({name: stored[key] for name, key in self._names.items()}, strict=True)
        return backbone.eval()

    def _resampled(self, positions: Tensor) -> Tensor:
        assert self.recipe.positions is not None, "asked of networks with positions"
        return self.recipe.positions.resampled(positions, self.recipe.grid(self.inputs.size))


def find_checkpoint(path: Path, name: str = "last") -> Path:
    """A checkpoint of a run folder, or the path itself when it is one.

    Args:
        path: a run folder, or a checkpoint.
        name: "last": the newest complete one; "best": the one by the monitored metric; or a file's name.

    Raises:
        CheckpointError: there is none; lists those that there are.
    """
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; use run=<the folder that a run has left>.")
    if not is_run_folder(path):
        return path
    folder = path / CHECKPOINTS
    found = newest(folder) if name == "last" else folder / (name if name.endswith(SUFFIX) else f"{name}{SUFFIX}")
    if found is None or not found.exists():
        there = [file.name for file in complete_checkpoints(folder).values()]
        advice = f"use checkpoint={'|'.join(there)}" if there else "let the run write one first"
        raise CheckpointError(f"{folder} has no complete checkpoint called {name}; {advice}.")
    return found.resolve()


def _inputs(config: Mapping[str, Plain]) -> Inputs:
    views = config.get("views")
    try:
        known = cast("Mapping[str, Plain]", views)
        mean, std = cast("list[float]", known["mean"]), cast("list[float]", known["std"])
        size, crop = cast(int, known["global_size"]), cast(float, known["evaluation_crop"])
        return Inputs(int(size), float(crop), [float(value) for value in mean], [float(value) for value in std])
    except (KeyError, TypeError, ValueError):
        raise ConfigError(
            "The config of the run does not say how images are evaluated: it needs views.global_size, "
            "views.evaluation_crop, views.mean and views.std."
        ) from None
