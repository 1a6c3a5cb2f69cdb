"""SimCLR under DeepSpeed on CPU processes, which Lightning refuses: a lift for tests alone.

python -m torch.distributed.run --standalone --nproc_per_node 2 -m tests.strategies.deepspeed_on_cpu FOLDER [WORD ...]
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import deepspeed.ops
import torch
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy
from omegaconf import DictConfig, open_dict

from spt.config.tree import project_tree, read_yaml
from spt.run import Run, prepare
from spt.strategies.deepspeed import DeepSpeedStage3Strategy
from tests.runs import compose, fit

TWO = ("strategy=ddp", "trainer.devices=2")  # replaced below, once the rules have passed it
SAVED_AT = 2


class DeepSpeedOnCPU(DeepSpeedStage3Strategy):
    """The strategy without Lightning's two demands for CUDA devices."""

    @property
    def parallel_devices(self) -> list[torch.device] | None:
        """CPUs with an index, which DeepSpeed reads."""
        devices = self._parallel_devices
        return devices and [torch.device("cpu", index) for index in range(len(devices))]

    @parallel_devices.setter
    def parallel_devices(self, devices: list[torch.device] | None) -> None:
        self._parallel_devices = devices

    def setup_environment(self) -> None:
        """Lightning's for DDP: the one for DeepSpeed asks for CUDA first."""
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # a minute of compiling, for speed alone
        DDPStrategy.setup_environment(self)


class Saver(Callback):
    """Saves a checkpoint in the middle of the first epoch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        if trainer.global_step == SAVED_AT:
            trainer.save_checkpoint(self.folder)


class Rates(Callback):
    """Keeps the learning rate of the engine's own optimizer at every step."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        assert isinstance(trainer.strategy, DeepSpeedStage3Strategy)  # run as a script, this file is there twice
        self.values.append(trainer.strategy.deepspeed_engine.optimizer.optimizer.param_groups[0]["lr"])


def on_cpu(cfg: DictConfig) -> DictConfig:
    """The experiment under DeepSpeed on two processes; rules, which refuse CPUs, do not know the lifted class."""
    file = project_tree().file("strategy", "deepspeed_stage_3")
    assert file is not None
    with open_dict(cfg):
        cfg.strategy = {
            **read_yaml(file),
            "_target_": "tests.strategies.deepspeed_on_cpu.DeepSpeedOnCPU",
            "param_persistence_threshold": 0,  # else networks as small as this one are not divided
        }
    return cfg


def exported(run: Run, folder: Path) -> dict[str, torch.Tensor]:
    """The whole weights, through a checkpoint folder and DeepSpeed's export to one file."""
    run.trainer.save_checkpoint(folder)
    return get_fp32_state_dict_from_zero_checkpoint(str(folder), tag="checkpoint")


def main(folder: Path, words: list[str]) -> None:
    """Trains, then goes on from the middle, and leaves what came of both."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    rates = Rates()
    run = fit(prepare(on_cpu(compose("simclr", folder / "whole", *TWO, *words))), Saver(folder / "middle"), rates)
    weights = exported(run, folder / "end")
    resumed_cfg = on_cpu(compose("simclr", folder / "resumed", *TWO, *words))
    resumed_cfg.resume = str(folder / "middle")
    resumed = fit(prepare(resumed_cfg))
    resumed_weights = exported(resumed, folder / "resumed_end")
    if run.trainer.is_global_zero:
        torch.save({"whole": weights, "resumed": resumed_weights}, folder / "weights.pt")
        metrics = run.metrics_file.latest
        shapes = [list(parameter.shape) for parameter in run.module.parameters()]
        left = {"metrics": metrics, "rates": rates.values, "shapes": shapes, "steps": resumed.trainer.global_step}
        (folder / "left.json").write_text(json.dumps(left))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
