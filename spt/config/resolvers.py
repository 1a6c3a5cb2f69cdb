"""What YAML files may compute: learning rates, sizes of small crops and of patches of timm models, names of runs.

A resolver never raises on a value that a rule refuses: the rule's message is the better one.
"""

from __future__ import annotations

import os
import re

from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf


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


def named_patch_size(name: str | None) -> int | None:
    """Pixels of a patch's side as the name of a model of timm tells them (vit_small_patch16_224), if it does."""
    found = re.search(r"_patch(\d+)", name or "")
    return int(found.group(1)) if found else None


def run_group(mode: RunMode | None, sweep_folder: str, choices: DictConfig) -> str | None:
    """What a run belongs to: its sweep, by the last part of the sweep's folder, else its experiment, if it has one."""
    if mode == RunMode.MULTIRUN:
        return os.path.basename(os.path.abspath(sweep_folder))
    experiment = choices.get("experiment")
    return None if experiment is None else str(experiment)


def chosen(choices: DictConfig, *groups: str) -> ListConfig:
    """The options chosen in the groups, those without one left out."""
    # a plain list would not survive OmegaConf.resolve
    return OmegaConf.create([str(choices[group]) for group in groups if choices.get(group)])


def register() -> None:
    """Makes the functions of this file known to YAML under their own names; may be called again."""
    # replace: tests, notebooks and sweeps come here more than once in a process
    OmegaConf.register_new_resolver("linear_lr", linear_lr, replace=True)
    OmegaConf.register_new_resolver("sqrt_lr", sqrt_lr, replace=True)
    OmegaConf.register_new_resolver("local_size", local_size, replace=True)
    OmegaConf.register_new_resolver("named_patch_size", named_patch_size, replace=True)
    OmegaConf.register_new_resolver("run_group", run_group, replace=True)
    OmegaConf.register_new_resolver("chosen", chosen, replace=True)
