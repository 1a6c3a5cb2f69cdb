"""What YAML files may compute: learning-rate scaling, the size of small crops, the batch of one device, a sweep's name.

A resolver never raises on a value that a rule refuses: the rule's message is the better one.
"""

from __future__ import annotations

import os

from hydra.types import RunMode
from omegaconf import ListConfig, OmegaConf

from spt.config.machine import resolve_devices


def linear_lr(base: float, global_batch_size: int) -> float:
    """Learning rate in proportion to the global batch size; `base` is the rate at 256 images (arXiv 1706.02677)."""
    return base * global_batch_size / 256


def sqrt_lr(base: float, global_batch_size: int) -> float:
    """Learning rate in proportion to the square root of the global batch size (SimCLR, arXiv 2002.05709, B.1)."""
    return base * max(global_batch_size, 0) ** 0.5


def local_size(image_size: int, patch_size: int | None) -> int:
    """Pixels of a small crop: 3/7 of the image (96 of 224, DINO), rounded to whole patches, at least one."""
    patch = max(patch_size or 1, 1)
    return max(1, round(image_size * 3 / 7 / patch)) * patch


def per_device_batch(
    global_batch_size: int, devices: int | str | ListConfig, num_nodes: int, accumulate_grad_batches: int
) -> int:
    """Images of one micro-batch on one device. A remainder is dropped here and refused by a rule."""
    plain = list(devices) if isinstance(devices, ListConfig) else devices
    shares = (resolve_devices(plain, "auto") or 1) * num_nodes * accumulate_grad_batches
    return global_batch_size // max(shares, 1)


def sweep_name(mode: RunMode | None, folder: str) -> str | None:
    """The last part of a sweep's folder; None for a single run."""
    return os.path.basename(os.path.abspath(folder)) if mode == RunMode.MULTIRUN else None


def register() -> None:
    """Makes the functions of this file known to YAML under their own names; may be called again."""
    # replace: tests, notebooks and sweeps come here more than once in a process
    OmegaConf.register_new_resolver("linear_lr", linear_lr, replace=True)
    OmegaConf.register_new_resolver("sqrt_lr", sqrt_lr, replace=True)
    OmegaConf.register_new_resolver("local_size", local_size, replace=True)
    OmegaConf.register_new_resolver("per_device_batch", per_device_batch, replace=True)
    OmegaConf.register_new_resolver("sweep_name", sweep_name, replace=True)
