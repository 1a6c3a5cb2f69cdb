"""The one LightningModule: it trains any Method."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import cast

import torch
from lightning import LightningModule
from lightning.fabric.plugins.precision.amp import _optimizer_handles_unscaling
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor
from torch.optim import Optimizer

from spt.distributed.gather import mean_over_ranks
from spt.finite import NonFiniteLossError, first_bad_tensor
from spt.host_copy import HostCopy
from spt.method import Method
from spt.optim.recipe import OptimizerRecipe
from spt.types import Batch, Masks, Progress, Sample
from spt.views.draws import NETWORK_STREAM, hashes
from spt.views.views import Views

# B images per device, D embedding


class SSLModule(LightningModule):
    """Trains a method, one optimizer step at a time, in this order.

    schedules(k), views, teacher forward, student forward, loss, backward, clip, drop frozen gradients, optimizer
    step, then the method's `finish_step` (teacher, center) with k, before any callback or checkpoint sees them.

    Args:
        method: holds every network.
        views: sample to augmented views, on the device.
        masks: sample and progress to token positions, on the sample's device, for methods that need them.
        recipe: optimizer, schedules, groups and clipping.
        seed: of the run: what the networks draw in a forward, such as drop-path.
        freeze_steps: first optimizer steps in which the backbone does not move: only heads train.

    Attributes:
        last_batch: views and masks of the latest micro-batch.
        step_metrics: what the latest micro-batch measured, by name; tensors on their device.
        metrics_at_start: metrics of the untrained network, filled before the first step.
        stop_requested: this process was asked to stop.
        stop_agreed: at least one process had been when the latest micro-batch began: the same on all.
    """

    def __init__(
        self,
        method: Method,
        *,
        views: Views,
        masks: Callable[[Sample, Progress], Masks] | None,
        recipe: OptimizerRecipe,
        seed: int,
        freeze_steps: int,
    ) -> None:
        super().__init__()
        self.method = method
        self.views = views
        self.masks = masks
        self.recipe = recipe
        self.seed = seed
        self.freeze_steps = freeze_steps
        self.last_batch: Batch | None = None
        self.step_metrics: dict[str, Tensor | float] = {}
        self.metrics_at_start: dict[str, float] = {}
        self.stop_requested = False
        self.stop_agreed = False
        self._verdict: HostCopy | None = None
        self._has_row = False
        self._scale: float | None = None  # of the loss, after the latest step

    @property
    def progress(self) -> Progress:
        """Where training is: the optimizer step about to be taken, of how many."""
        steps_per_epoch = int(self.trainer.num_training_batches) // self.trainer.accumulate_grad_batches
        return Progress(self.trainer.global_step, int(self.trainer.estimated_stepping_batches), steps_per_epoch)

    def configure_optimizers(self) -> Optimizer:
        """The recipe's optimizer over the method's trainable parameters."""
        return self.recipe.build(self.method)

    def with_masks(self, sample: Sample) -> Sample:
        """A training sample with its masks, which are drawn while it is on the host.

        How many tokens they leave is a shape, for which a device would have to be waited for.
        """
        if self.masks is None:
            return sample
        masks = self.masks(sample, self.progress)
        if sample.indices.device.type == "cpu" and self.device.type == "cuda":  # unpinned, only short copies are queued
            masks = Masks(*(positions.pin_memory() for positions in masks))
        return sample._replace(masks=masks)

    def make_batch(self, sample: Sample) -> Batch:
        """What the method sees of a sample: augmented views and masks, never labels."""
        global_views, local_views = self.views(sample)
        if sample.masks is None:  # no data module had them drawn on the host
            sample = self.with_masks(sample)
        return Batch(
            [view.to(self.dtype) for view in global_views],
            [view.to(self.dtype) for view in local_views],
            sample.masks,
        )

    def on_train_batch_start(self, batch: Sample, batch_idx: int) -> None:
        """Writes this step's learning rate and weight decay; micro-batches of one step write the same."""
        self._seed_networks(batch_idx)
        every: int = self.trainer.log_every_n_steps  # type: ignore[attr-defined]  # set outside its class
        self._has_row = self.trainer.is_last_batch or (every > 0 and (self.progress.step + 1) % every == 0)
        (optimizer,) = self.trainer.optimizers
        metrics: dict[str, Tensor | float] = {}
        metrics.update(self.recipe.set_step(optimizer, self.progress))
        if self.method.networks.momentum is not None:
            metrics["train/teacher_momentum"] = self.method.networks.momentum(self.progress)
        self.note(metrics)

    def note(self, metrics: Mapping[str, Tensor | float]) -> None:
        """Keeps what was measured of this micro-batch, keyed "stage/name".

        Lightning gets it in steps that become a row of the loggers or end an epoch: taking it costs Lightning
        milliseconds a step.
        """
        self.step_metrics.update(metrics)
        if self._has_row:
            self.log_dict(dict(metrics))

    def _seed_networks(self, batch_idx: int) -> None:
        """Makes torch's global draws a function of seed, step, micro-batch and rank, so that a resume repeats them."""
        micro_batch = batch_idx % self.trainer.accumulate_grad_batches
        place = torch.tensor([micro_batch * self.trainer.world_size + self.global_rank])
        step = torch.tensor([self.progress.step])
        seed = int(hashes(self.seed, NETWORK_STREAM, step, place, 1))
        # not torch.manual_seed, which in a process without a GPU notes down the whole call stack for each kind of GPU
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)

    def training_step(self, batch: Sample, batch_idx: int) -> dict[str, Tensor]:
        """One micro-batch: {"loss", "embeddings" [B, D], "labels" [B]}; the last two are for online probes."""
        self.last_batch = self.make_batch(batch)
        output = self.method.step(self.last_batch, self.progress)
        # of all ranks: a loss that is not finite on one of them must stop them all
        stop = output.loss.new_full((), float(self.stop_requested))
        metrics = mean_over_ranks({"train/loss": output.loss.detach(), "stop": stop, **output.metrics})
        loss = cast(Tensor, metrics.pop("train/loss"))
        self._verdict = HostCopy(torch.stack([loss.float(), cast(Tensor, metrics.pop("stop")).float()]))
        self.note({"train/loss": loss, **metrics})
        return {"loss": output.loss, "embeddings": output.embeddings, "labels": batch.labels}

    def on_after_backward(self) -> None:
        """Stops the run when the loss is not finite, before the optimizer sees the gradients.

        Raises:
            NonFiniteLossError: names the step and the first tensor that is not finite.
        """
        # the one wait for the device in a step (float16's scaler has its own): for the forward pass, while the device
        # has the backward pass to go on with
        assert self._verdict is not None, "a backward pass follows a forward pass"
        loss, stop = self._verdict.read()
        self.stop_agreed = stop > 0
        if not math.isfinite(loss):
            assert self.last_batch is not None, "a loss comes from a batch"
            with self.trainer.precision_plugin.train_step_context():  # float16 overflows where float32 does not
                culprit = first_bad_tensor(self.method, self.last_batch, self.progress)
            raise NonFiniteLossError(self.progress.step, loss, culprit)

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clips as the recipe says, then drops the gradients of layers that the method freezes at this step.

        Those of a frozen backbone go first: heads are clipped by their own norm.
        """
        self._unscale(optimizer)
        if self.progress.step < self.freeze_steps:
            for parameter in self.method.networks.backbone.parameters():
                parameter.grad = None
        if self.recipe.clip_norm is not None or self._has_row:  # a pass over all gradients, for nothing otherwise
            self.note({"train/grad_norm": self.recipe.clip(self.method)})
        self.method.drop_gradients(self.progress)

    def _unscale(self, optimizer: Optimizer) -> None:
        """Takes the loss scale of float16 off the gradients, which Lightning leaves to fused optimizers' own step."""
        plugin = self.trainer.precision_plugin
        if isinstance(plugin, MixedPrecision) and plugin.scaler is not None and _optimizer_handles_unscaling(optimizer):
            plugin.scaler.unscale_(optimizer)

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: Optimizer | LightningOptimizer,
        optimizer_closure: Callable[[], object] | None = None,
    ) -> None:
        """The optimizer step k, then what follows it. `global_step` is still k here."""
        progress = self.progress
        before = self._loss_scale() if self._scale is None else self._scale
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        self._scale = self._loss_scale()
        if self._scale >= before:
            self.method.finish_step(progress)
        else:  # float16 gradients overflowed, and the scaler left the step out
            self.method.leave_out_step()

    def _loss_scale(self) -> float:
        """Of float16, for which the device is waited for; 1 otherwise."""
        plugin = self.trainer.precision_plugin
        return plugin.scaler.get_scale() if isinstance(plugin, MixedPrecision) and plugin.scaler is not None else 1.0

    def on_save_checkpoint(self, checkpoint: dict[str, object]) -> None:
        """Keeps what the untrained network was worth: a resumed run cannot measure it again."""
        checkpoint["metrics_at_start"] = dict(self.metrics_at_start)

    def on_load_checkpoint(self, checkpoint: dict[str, object]) -> None:
        """Takes it over."""
        self.metrics_at_start = dict(cast("dict[str, float]", checkpoint["metrics_at_start"]))

    def validation_step(self, batch: Sample, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        """{"embeddings" [b, D], float32, "labels" [b], "indices" [b]} of the evaluated network, without duplicates."""
        images = self.views.evaluation_view(batch.images).to(self.dtype)  # [B, 3, S, S]
        embeddings = self.method.embed(images).float()  # [B, D]
        real = batch.indices >= 0
        return {"embeddings": embeddings[real], "labels": batch.labels[real], "indices": batch.indices[real]}
