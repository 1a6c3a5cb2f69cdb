"""Facts about the machine that cost no torch import."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec
from pathlib import Path

from spt.config.tree import Plain


def count_gpus() -> int:
    """CUDA devices that this process may use: device files, narrowed by CUDA_VISIBLE_DEVICES."""
    present = len(list(Path("/dev").glob("nvidia[0-9]*")))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    # CUDA itself stops reading the list at the first device that does not exist; -1 is the usual way to say none
    named = [word.strip() for word in visible.split(",")]
    usable = next((i for i, word in enumerate(named) if word in ("", "-1")), len(named))
    return min(present, usable)


def has_apple_gpu() -> bool:
    """Whether torch's mps device can be expected."""
    return platform.system() == "Darwin" and platform.machine() == "arm64"


def is_installed(package: str) -> bool:
    """Whether a top-level package can be imported, without importing it."""
    return find_spec(package) is not None


def slurm_tasks() -> int | None:
    """Tasks that SLURM started this job with, or None outside SLURM."""
    tasks = os.environ.get("SLURM_NTASKS", "")
    return int(tasks) if tasks.isdecimal() else None


def resolve_accelerator(accelerator: str) -> str:
    """cpu | gpu | mps: "auto" becomes the best device that is there, and "cuda" is another word for gpu."""
    if accelerator == "cuda":
        return "gpu"
    if accelerator != "auto":
        return accelerator
    if count_gpus() > 0:
        return "gpu"
    return "mps" if has_apple_gpu() else "cpu"


def resolve_devices(devices: int | str | list[Plain], accelerator: str) -> int | None:
    """Processes on each node, or None when the value cannot be read as a number of devices.

    Args:
        devices: a number, "auto" or -1 (all that are there), or a list of device indices.
        accelerator: as given by the user; "auto" is resolved.
    """
    if isinstance(devices, list):
        return len(devices)
    if devices in ("auto", -1, "-1"):
        return max(1, count_gpus()) if resolve_accelerator(accelerator) == "gpu" else 1
    if isinstance(devices, str):
        return int(devices) if devices.isdecimal() else None
    return devices
