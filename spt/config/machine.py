"""Facts about the machine that cost no torch import."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from spt.config.tree import Plain  # YAML, for which --help does not wait


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


@cache  # a sweep asks for every run
def gpu_has_bfloat16() -> bool | None:
    """Whether every GPU computes in bfloat16 (compute capability 8.0 and up); None when the driver does not tell."""
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.split()
        return bool(answer) and all(float(capability) >= 8.0 for capability in answer)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def torch_version() -> tuple[int, int] | None:
    """Major and minor version of torch, without importing it."""
    try:
        major, minor = version("torch").split(".")[:2]
        return int(major), int(minor)
    except (PackageNotFoundError, ValueError):
        return None


def has_apple_gpu() -> bool:
    """Whether torch's mps device can be expected."""
    return platform.system() == "Darwin" and platform.machine() == "arm64"


def is_installed(package: str) -> bool:
    """Whether a top-level package can be imported, without importing it."""
    return find_spec(package) is not None


def has_cpp_compiler() -> bool:
    """Whether a compiler of C++ is there, which torch.compile's own backend calls on every device."""
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++") if name)


# by which SLURM tells a process that it is one of several tasks
TASK_VARIABLES = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_PROCID", "SLURM_LOCALID",
                  "SLURM_STEP_ID", "SLURM_STEPID")  # fmt: skip


class Group(NamedTuple):
    """Processes that a launcher has started together, this one among them.

    Attributes:
        launcher: torchrun | srun, as a person would say; train.py's own launching is torchrun's.
        rank: of this process.
        world_size: number of processes.
    """

    launcher: str
    rank: int
    world_size: int


def joined_group() -> Group | None:
    """The processes that this one was started with, or None when it was started alone."""
    rank, world_size = _number("RANK"), _number("WORLD_SIZE")
    if rank is not None and world_size is not None and _number("LOCAL_RANK") is not None:
        return Group("torchrun", rank, world_size)
    tasks, task = slurm_tasks(), _number("SLURM_PROCID")
    # the script of a batch job has a SLURM_PROCID too, but belongs to no step
    if tasks is not None and task is not None and in_slurm_step():
        return Group("srun", task, tasks)
    return None


def started_processes() -> int | None:
    """Those that torchrun started together with this one; None when it is alone."""
    group = joined_group()
    return None if group is None or group.launcher != "torchrun" else group.world_size


def slurm_tasks() -> int | None:
    """Tasks that SLURM started this job with; None outside SLURM, in its interactive shells and under torchrun."""
    if "WORLD_SIZE" in os.environ or os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive"):
        return None
    return _number("SLURM_NTASKS")


def in_slurm_step() -> bool:
    """Whether srun started this process, rather than the script of a batch job."""
    return "SLURM_STEP_ID" in os.environ or "SLURM_STEPID" in os.environ


def _number(variable: str) -> int | None:
    value = os.environ.get(variable, "")
    return int(value) if value.isdecimal() else None


def count_cores() -> int:
    """Processor cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
