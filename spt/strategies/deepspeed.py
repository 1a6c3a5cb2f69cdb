"""DeepSpeed's ZeRO stage 3: weights, gradients and optimizer state divided over processes by DeepSpeed's engine."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

from lightning import LightningModule, Trainer
from lightning.pytorch.plugins import Precision
from lightning.pytorch.plugins.precision.deepspeed import DeepSpeedPrecision
from lightning.pytorch.strategies import DeepSpeedStrategy as LightningDeepSpeedStrategy
from torch import nn
from torch.optim import Optimizer

from spt.checkpoint.folder import aside, remove
from spt.checkpoint.progress import RUN
from spt.checkpoint.together import process, together
from spt.checkpoint.writing import complete_folder
from spt.config.errors import ConfigError


class Clipping(Protocol):
    """What the strategy reads of the optimizer's recipe.

    Attributes:
        clip_norm: greatest joint L2 norm of all gradients; None clips nothing.
    """

    clip_norm: float | None


class Trainable(Protocol):
    """What the strategy reads of the LightningModule.

    Attributes:
        recipe: of the optimizer.
    """

    recipe: Clipping


class DeepSpeedStage3Strategy(LightningDeepSpeedStrategy):
    """Lightning's DeepSpeedStrategy at stage 3, for methods without a teacher and elementwise optimizers.

    What is otherwise left to its user: gradients are clipped as the recipe says, by the engine (which clips at a norm
    of its own when it is told nothing); bf16-mixed is float32 weights with DeepSpeed's autocast, as under every other
    strategy, and not an engine in bfloat16; and train/grad_norm is the engine's. The table of rules refuses what
    stage 3 would get wrong without an error.

    Args:
        offload_optimizer: optimizer state lives in host memory.
        offload_parameters: shards of the weights live in host memory.
        param_persistence_threshold: tensors of fewer numbers stay whole on every device.
        reduce_bucket_size: numbers in gradients that are averaged together.
        overlap_comm: gradients are averaged during the backward pass.
        timeout_seconds: longest wait for another process.

    Raises:
        ConfigError: the package deepspeed is not installed.

    Paper: ZeRO, arXiv 1910.02054.
    """

    def __init__(
        self, *, offload_optimizer: bool, offload_parameters: bool, param_persistence_threshold: int,
        reduce_bucket_size: int, overlap_comm: bool, timeout_seconds: float,
    ) -> None:  # fmt: skip
        if find_spec("deepspeed") is None:
            raise ConfigError(
                "strategy=deepspeed_stage_3 needs the package deepspeed, which is not installed.\n"
                "    try: pip install -e '.[deepspeed]' (or pip install deepspeed), or strategy=fsdp2"
            )
        super().__init__(
            stage=3,
            offload_optimizer=offload_optimizer,
            offload_parameters=offload_parameters,
            reduce_bucket_size=reduce_bucket_size,
            overlap_comm=overlap_comm,
            logging_batch_size_per_gpu=1,  # for throughput in DeepSpeed's own log alone, which nobody sees
            timeout=timedelta(seconds=timeout_seconds),
        )
        config = self._settings()
        zero = cast("dict[str, object]", config["zero_optimization"])
        zero["stage3_param_persistence_threshold"] = param_persistence_threshold
        config["zero_force_ds_cpu_optimizer"] = False  # with offloading too, the recipe's optimizer is the optimizer

    @property
    def precision_plugin(self) -> Precision:
        """How numbers are cast."""
        return self._precision_plugin if self._precision_plugin is not None else Precision()

    @precision_plugin.setter
    def precision_plugin(self, precision_plugin: Precision | None) -> None:
        if precision_plugin is not None and precision_plugin.precision == "bf16-mixed":
            # Lightning's plugin would make the weights bfloat16, as bf16-true does
            precision_plugin = DeepSpeedPrecision("32-true")
            self._settings()["torch_autocast"] = {"enabled": True, "dtype": "bfloat16"}
        self._precision_plugin = precision_plugin

    def setup(self, trainer: Trainer) -> None:
        """Lightning's, with the recipe's clipping given to the engine."""
        # always written: some versions of DeepSpeed clip at 1.0 where nothing is said
        recipe = cast(Trainable, self.lightning_module).recipe
        self._settings()["gradient_clipping"] = 0.0 if recipe.clip_norm is None else float(recipe.clip_norm)
        super().setup(trainer)

    def init_deepspeed(self) -> None:
        """Lightning's, without its warning that the module's clipping does not clip: the engine does."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Since DeepSpeed handles gradient clipping internally")
            super().init_deepspeed()

    def optimizer_step(
        self, optimizer: Optimizer, closure: Callable[[], object], model: LightningModule | nn.Module | None = None,
        **options: object,
    ) -> object:  # fmt: skip
        """Lightning's; then the norm that the engine has measured, since no rank has the gradients to measure it."""
        result = super().optimizer_step(optimizer, closure, model, **options)
        norm = self.deepspeed_engine.get_global_grad_norm()
        if norm is not None and self.lightning_module is not None:
            self.lightning_module.log("train/grad_norm", norm)
        return result

    def save_checkpoint(
        self, checkpoint: dict[str, object], filepath: str | Path, storage_options: object | None = None
    ) -> None:
        """DeepSpeed's folder, a file of every process, whole or not at all; called by all processes.

        Raises:
            CheckpointError: it could not be written.
        """
        path = Path(self.broadcast(str(filepath)))
        written = aside(path)
        together(lambda: remove(written), "written", path, on_first=True)
        together(lambda: super(DeepSpeedStage3Strategy, self).save_checkpoint(checkpoint, written), "written", path)
        card = checkpoint.get(RUN, {})
        together(lambda: complete_folder(written, path, {RUN: card}), "written", path, on_first=True)

    def remove_checkpoint(self, filepath: str | Path) -> None:
        """Deletes a folder, on the first process."""
        if process() == 0:
            remove(Path(filepath))

    def _settings(self) -> dict[str, object]:
        assert isinstance(self.config, dict), "made by Lightning from the arguments"
        return self.config
