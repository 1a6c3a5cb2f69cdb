"""Whether images that are held in memory are held in the memory of the device that trains."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch

from spt.config.errors import ConfigError

ImagesOn: TypeAlias = Literal["auto", "device", "host"]

SHARE = 0.25
"""Of a GPU's free memory, what images may take unasked: networks and activations are still to come."""


def belongs_on_device(
    images_on: ImagesOn, *, num_bytes: int, device: torch.device, free_bytes: int, for_workers: bool
) -> bool:
    """Whether images are copied to the device once, rather than batch by batch.

    Args:
        images_on: device | host, or auto: a CUDA device whose free memory they take at most `SHARE` of.
        num_bytes: of the images.
        device: that trains.
        free_bytes: of its memory.
        for_workers: processes read the images, which a device's memory is not for.

    Raises:
        ConfigError: device is asked for and cannot be.
    """
    if images_on == "host" or device.type == "cpu":
        return False
    if images_on == "auto":
        return device.type == "cuda" and not for_workers and num_bytes <= SHARE * free_bytes
    if for_workers:
        raise ConfigError(
            "data.images_on=device keeps images where data workers cannot read them; use data.num_workers=0 and "
            "views.made_on=device, or data.images_on=host."
        )
    if num_bytes > free_bytes:
        raise ConfigError(
            f"data.images_on=device asks for {num_bytes / 2**30:.1f} GiB, and {free_bytes / 2**30:.1f} GiB of {device} "
            "are free; use data.images_on=host."
        )
    return True


def free_memory(device: torch.device) -> int:
    """Bytes of a CUDA device that nobody uses; of others without a limit, since they are used only when asked for."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 2**63
