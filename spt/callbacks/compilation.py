"""torch.compile of training, and how often it had to compile again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Literal, cast

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor, nn

from spt.backbones.drop_path import replace_drop_path
from spt.config.errors import ConfigError
from spt.data.module import ImageData
from spt.module import SSLModule
from spt.strategies.sharding import roots
from spt.strategies.units import plan_units
from spt.types import Batch, Progress, Sample

# B images per device, S pixels

logger = logging.getLogger(__name__)

_GRAPHS_PER_BLOCK = 6  # two resolutions with gradient and without, and room


class Compilation(Callback):
    """Turns blocks or whole steps into compiled code for the time of training; evaluation is not compiled.

    Before the first step two steps on noise let the compiler see every resolution, and change nothing. Metric:
    system/recompilations, graphs that had to be compiled after that.

    Args:
        scope: "blocks": each block of each network, which sharding may gather on its own; "step": all that
            `Method.step` does, with what joins its networks.
        backend: of torch.compile.
        mode: of inductor, the default backend; other backends have none.

    Raises:
        ConfigError: a scope, backend or mode that does not exist.
    """

    def __init__(self, *, scope: Literal["blocks", "step"], backend: str, mode: str) -> None:
        if scope not in ("blocks", "step"):
            raise ConfigError(f"compile.scope={scope} does not exist; use compile=blocks, compile=step or compile=off.")
        backends = torch.compiler.list_backends(exclude_tags=())
        if backend not in backends:
            raise ConfigError(
                f"compile.backend={backend} does not exist here; use compile.backend={'|'.join(backends)}."
            )
        if mode not in ("default", "max-autotune-no-cudagraphs"):
            raise ConfigError(
                f"compile.mode={mode} cannot be used: use compile.mode=default or "
                "compile.mode=max-autotune-no-cudagraphs. CUDA graphs would overwrite what probes read."
            )
        self.scope = scope
        self.backend = backend
        self.mode = mode
        self._num_graphs = 0
        self._recompilations = 0
        self._limit: int | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Marks what is to be compiled."""
        method = cast(SSLModule, pl_module).method
        if self.scope == "step":
            vars(method)["step"] = self._compiled(method.step, method)  # until `teardown`
            return
        blocks = [unit.module for root in roots(method).values() for unit in plan_units(root)]
        for block in blocks:
            replace_drop_path(block)
            vars(block)["forward"] = self._compiled(block.forward, block)
        # blocks of one class share the compiler's notes, which end at eight graphs: a ResNet's all differ
        self._limit = torch._dynamo.config.recompile_limit
        torch._dynamo.config.recompile_limit = max(self._limit, _GRAPHS_PER_BLOCK * len(blocks))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compiles, and says how long it took."""
        started_at = time.monotonic()
        before = _num_graphs()
        warm_up(trainer, cast(SSLModule, pl_module))
        self._num_graphs = _num_graphs()
        logger.info(
            "compile=%s: %d graphs by %s in %.0f s",
            self.scope, self._num_graphs - before, self.backend, time.monotonic() - started_at,
        )  # fmt: skip

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Tensor | object, batch: Sample, batch_idx: int
    ) -> None:
        """Counts what was compiled after all."""
        module, more = cast(SSLModule, pl_module), _num_graphs() - self._num_graphs
        if more:
            self._num_graphs += more
            self._recompilations += more
            logger.info("%d more graphs were compiled in step %d; TORCH_LOGS=recompiles says why", more,
                        module.progress.step)  # fmt: skip
        module.note({"system/recompilations": float(self._recompilations)})

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Takes the compiled code away again."""
        method = cast(SSLModule, pl_module).method
        for module in method.modules():
            for name in ("step", "forward"):
                vars(module).pop(name, None)
        if self._limit is not None:
            torch._dynamo.config.recompile_limit, self._limit = self._limit, None

    def _compiled(self, function: Callable[..., object], owner: nn.Module) -> Callable[..., object]:
        mode = self.mode if self.backend == "inductor" and self.mode != "default" else None
        compiled = torch.compile(function, backend=self.backend, mode=mode)

        def call(*inputs: object, **named: object) -> object:
            # batches of evaluation have other sizes, and would be compiled for a few calls
            return (compiled if owner.training else function)(*inputs, **named)

        return call


def warm_up(trainer: Trainer, module: SSLModule) -> None:
    """Runs the method's step forwards and backwards on noise; weights, buffers and random numbers stay as they were."""
    method, data = module.method, cast(ImageData, trainer.datamodule)  # type: ignore[attr-defined]
    num_images = data.global_batch_size // (trainer.world_size * trainer.accumulate_grad_batches)
    buffers = [buffer.clone() for buffer in method.buffers()]
    devices = [module.device] if module.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        for step in range(2):  # at the second, the compiler sees which numbers change
            progress = module.progress._replace(step=step)
            with trainer.precision_plugin.train_step_context():
                loss = method.step(noise(module, num_images, progress), progress).loss
            loss.backward()
    for parameter in method.parameters():
        parameter.grad = None
    with torch.no_grad():
        for buffer, before in zip(method.buffers(), buffers, strict=True):
            buffer.copy_(before)


def noise(module: SSLModule, num_images: int, progress: Progress) -> Batch:
    """A batch of random views, with masks where the method has them."""
    views = [torch.randn(num_images, 3, size, size, device=module.device) for size in module.views.sizes]
    views = [view.to(module.dtype) for view in views]
    indices = torch.arange(num_images, device=module.device) + progress.step * num_images
    zeros = torch.zeros_like(indices)
    masks = None if module.masks is None else module.masks(Sample([], zeros, indices, zeros), progress)
    num_global = module.views.num_global_views
    return Batch(views[:num_global], views[num_global:], masks)


def _num_graphs() -> int:
    """Graphs that this process has compiled."""
    from torch._dynamo.utils import counters  # loads the compiler, for which other runs need not wait

    return int(counters["stats"]["unique_graphs"])
