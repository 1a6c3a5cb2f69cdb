"""Run folders as training leaves them, without training: random weights, the student's unlike the teacher's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from spt.checkpoint.folder import name_of
from spt.checkpoint.writing import write_file, write_folder
from spt.config.build import build_method
from spt.method import Method
from tests.runs import VIT, compose

CFG_METRICS = {"val/knn_top1": 0.75, "train/loss": 3.5}
STEP = 6


class Left(NamedTuple):
    """A run folder and the method that its checkpoint holds."""

    folder: Path
    checkpoint: Path
    method: Method
    cfg: DictConfig


@torch.no_grad()
def leave_run(
    folder: Path, *words: str, method: str = "dino", backbone: Sequence[str] = VIT, layout: str = "file"
) -> Left:
    """Writes one checkpoint of a small method."""
    cfg = compose(method, folder, *words, backbone=backbone)
    built = build_method(cfg).eval()
    generator = torch.Generator().manual_seed(1)
    for tensor in [*built.parameters(), *built.buffers()]:
        if tensor.is_floating_point():
            tensor.copy_(tensor + 0.05 * torch.rand(tensor.shape, generator=generator))
    path = folder / "checkpoints" / name_of(STEP)
    weights = {f"method.{name}": tensor.clone() for name, tensor in built.state_dict().items()}
    content = {"state_dict": weights, "optimizer_states": [], "loops": {}, "run": run_of(cfg)}
    (write_folder if layout == "folder" else write_file)(content, path)
    return Left(folder, path, built, cfg)


def run_of(cfg: DictConfig) -> dict[str, object]:
    """What the card of a checkpoint says."""
    choices = {str(group): str(option) for group, option in HydraConfig.get().runtime.choices.items() if option}
    return {
        "format": 1, "step": STEP, "epoch": 2, "total_steps": 9, "world_size": 2, "accumulate_grad_batches": 1,
        "choices": choices, "config": OmegaConf.to_yaml(cfg, resolve=True), "ids": {}, "metrics": CFG_METRICS,
        "versions": {"torch": "2.14.0", "timm": "1.0.20"},
    }  # fmt: skip


def noise(size: int, images: int = 3) -> Tensor:
    """[B, 3, S, S]."""
    return torch.randn(images, 3, size, size, generator=torch.Generator().manual_seed(5))
