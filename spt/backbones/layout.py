"""How the numbers of images lie in memory."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from spt.config.errors import ConfigError

MemoryFormat: TypeAlias = Literal["auto", "channels_last", "contiguous"]

_WORDS = ("auto", "channels_last", "contiguous")


def check_memory_format(word: str) -> None:
    """Refuses a word that means nothing.

    Raises:
        ConfigError: it is none of the three.
    """
    if word not in _WORDS:
        raise ConfigError(
            f"backbone.memory_format={word} does not exist; use backbone.memory_format={'|'.join(_WORDS)}."
        )


def laid_out(images: Tensor, memory_format: MemoryFormat) -> Tensor:
    """The same images [B, C, H, W] for a convolutional network, whose activations keep the layout they start with.

    Weights stay as they are, so that checkpoints and shards do not know it. "auto" is channels_last on a GPU, whose
    convolutions are made for it, and contiguous elsewhere: CPUs were no faster with it.
    """
    is_last = memory_format == "channels_last" or (memory_format == "auto" and images.device.type == "cuda")
    return images.contiguous(memory_format=torch.channels_last if is_last else torch.contiguous_format)
