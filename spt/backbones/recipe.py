"""How plain timm builds the network of a backbone, so that its weights are of use without this project."""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

import timm
import torch
from torch import Tensor, nn

from spt.backbones.positions import resample_positions
from spt.config.errors import ConfigError


class Positions(NamedTuple):
    """Where a network keeps learned or fixed position embeddings.

    Attributes:
        num_prefix: tokens before the patches that have a position as well, such as the class token.
        grid: rows and columns of the patches.
    """

    num_prefix: int
    grid: tuple[int, int]

    def resampled(self, positions: Tensor, grid: tuple[int, int]) -> Tensor:
        """Positions [1, num_prefix + N, D] for another grid of patches; those of the prefix stay."""
        prefix, patches = positions[:, : self.num_prefix], positions[:, self.num_prefix :]
        return torch.cat([prefix, resample_positions(patches, self.grid, grid)], dim=1)


class TimmRecipe(NamedTuple):
    """A call of `timm.create_model`, and what is changed afterwards.

    Attributes:
        name: of timm.
        arguments: keywords of the call.
        stem: "cifar": the first convolution of a ResNet is replaced by one of 3x3 and stride 1, and its pooling
            left out.
        patch_size: pixels of a patch's side; None where the network takes images of any size.
        positions: None for networks without any.
    """

    name: str
    arguments: dict[str, object]
    stem: Literal["as_in_timm", "cifar"] = "as_in_timm"
    patch_size: int | None = None
    positions: Positions | None = None

    def at(self, image_size: int) -> TimmRecipe:
        """The same network for square images of that many pixels.

        Raises:
            ConfigError: they cannot be cut into whole patches.
        """
        if self.patch_size is None:
            return self
        if image_size % self.patch_size:
            raise ConfigError(
                f"{image_size} pixels are no whole number of patches of {self.patch_size}; "
                f"use {max(1, image_size // self.patch_size) * self.patch_size}."
            )
        return self._replace(arguments={**self.arguments, "img_size": image_size})

    def grid(self, image_size: int) -> tuple[int, int]:
        """Rows and columns of patches of a square image."""
        assert self.patch_size is not None, "asked of networks with positions"
        return image_size // self.patch_size, image_size // self.patch_size

    def build(self) -> nn.Module:
        """The network, with random weights."""
        network = cast(nn.Module, timm.create_model(self.name, **self.arguments))  # type: ignore[arg-type]
        if self.stem == "cifar":
            replace_stem(network)
        return network

    def code(self) -> str:
        """The same as lines of Python that leave the network in `model`."""
        arguments = "".join(f", {key}={value!r}" for key, value in self.arguments.items())
        lines = ["import timm", "", f'model = timm.create_model("{self.name}"{arguments})']
        if self.stem == "cifar":
            lines[0] = "import timm\nimport torch"
            width = cast(nn.Conv2d, self.build().conv1).out_channels
            lines += [
                f"model.conv1 = torch.nn.Conv2d(3, {width}, kernel_size=3, stride=1, padding=1, bias=False)",
                "model.maxpool = torch.nn.Identity()",
            ]
        return "\n".join(lines)


def replace_stem(network: nn.Module) -> nn.Conv2d:
    """Gives a ResNet of timm a first convolution of 3x3 and stride 1, which it returns, and no pooling after it."""
    width = cast(nn.Conv2d, network.conv1).out_channels
    convolution = nn.Conv2d(3, width, kernel_size=3, stride=1, padding=1, bias=False)
    network.conv1, network.maxpool = convolution, nn.Identity()
    return convolution
