"""Weights, gradients, optimizer state and teacher divided over processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal, Protocol, cast

from lightning import LightningModule, Trainer
from lightning.pytorch.plugins import Precision
from lightning.pytorch.strategies import ModelParallelStrategy, ParallelStrategy
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy

from spt.checkpoint.portable import Portable
from spt.distributed.gather import gather_within, rank, world_size
from spt.distributed.replicas import average_running_statistics, copy_from_first
from spt.method import Method
from spt.strategies.accumulation import keep_gradients_whole, reduce_gradients
from spt.strategies.mesh import build_mesh, check_mesh, sharding_mesh
from spt.strategies.precision import NumberFormats, sharded_precision
from spt.strategies.sharding import Options, check_alignment, check_complete, is_sharded, shard, subtrees

logger = logging.getLogger(__name__)


class Trainable(Protocol):
    """What the strategy reads of the LightningModule.

    Attributes:
        method: its networks are divided.
    """

    method: Method


class FSDP2Strategy(Portable, ModelParallelStrategy):
    """torch's fully_shard through Lightning's ModelParallelStrategy.

    What Lightning's class leaves to its user, or does otherwise: "auto" shards over all processes; networks are
    divided here rather than in the module; all processes start with the first one's weights and buffers; bf16-mixed
    is fully_shard's policy rather than autocast; setting up again after a fit is allowed; and a parameter that would
    be left out is an error.

    Args:
        data_parallel_size: processes that share one copy of the weights; "auto" for all that the others leave.
        replicate_size: copies of the weights.
        tensor_parallel_size: processes that work on the same images.
        mesh: gives a mesh in place of the one of these sizes.
        mp_policy: number formats.
        reshard_after_forward: of blocks; see fully_shard. Roots always reshard.
        cpu_offload: shards and optimizer state live in host memory.
        reduce_every_micro_batch: False averages gradients once per optimizer step, and keeps them whole until then.
            Sums are then taken in ddp's order, so that both give the same bits under accumulation too.
        save_distributed_checkpoint: checkpoints are folders with a file of every process.
        parallelize_fn: divides the module's networks over the mesh in place of ours.
        timeout_seconds: longest wait for another process.

    Paper: PyTorch FSDP, arXiv 2304.11277.
    """

    def __init__(
        self, *, data_parallel_size: Literal["auto"] | int, replicate_size: int, tensor_parallel_size: int,
        mesh: Callable[[], DeviceMesh] | None, mp_policy: NumberFormats, reshard_after_forward: bool | int,
        cpu_offload: bool, reduce_every_micro_batch: bool, save_distributed_checkpoint: bool,
        parallelize_fn: Callable[[LightningModule, DeviceMesh], None] | None, timeout_seconds: float,
    ) -> None:  # fmt: skip
        super().__init__(
            data_parallel_size=data_parallel_size,
            tensor_parallel_size=tensor_parallel_size,
            save_distributed_checkpoint=save_distributed_checkpoint,
            timeout=timedelta(seconds=timeout_seconds),
        )
        self.data_parallel_size = data_parallel_size
        self.replicate_size = replicate_size
        self.tensor_parallel_size = tensor_parallel_size
        self.mesh = mesh
        self.mp_policy = mp_policy
        self.reshard_after_forward = reshard_after_forward
        self.cpu_offload = cpu_offload
        self.reduce_every_micro_batch = reduce_every_micro_batch
        self.parallelize_fn = parallelize_fn
        self.checkpoint_layout = "folder" if save_distributed_checkpoint else "file"
        self._is_last_micro_batch = True

    @property
    def precision_plugin(self) -> Precision:
        """How numbers are cast."""
        return self._precision_plugin if self._precision_plugin is not None else Precision()

    @precision_plugin.setter
    def precision_plugin(self, precision_plugin: Precision | None) -> None:
        self._precision_plugin = sharded_precision(precision_plugin)

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int]:
        """Over how many processes images are divided, and which of them this is."""
        return {"num_replicas": world_size(), "rank": rank()}

    def setup_environment(self) -> None:
        """Joins the processes and lays them out on a mesh, once."""
        self._setup_distributed()
        if self._device_mesh is None:
            if self.mesh is not None:
                self._device_mesh = check_mesh(self.mesh())
            else:
                self._device_mesh = build_mesh(
                    self.root_device.type,
                    world_size=self.world_size,
                    replicate_size=self.replicate_size,
                    data_parallel_size=self.data_parallel_size,
                    tensor_parallel_size=self.tensor_parallel_size,
                )
        data = sharding_mesh(self._device_mesh)
        gather_within(None if data.size() == self.world_size else data.get_group())

    def _get_process_group_backend(self) -> str:
        # offloaded gradients are clipped where they are, on the CPU
        is_mixed = self.cpu_offload and self.root_device.type == "cuda"
        return "cpu:gloo,cuda:nccl" if is_mixed else super()._get_process_group_backend()

    def setup(self, trainer: Trainer) -> None:
        """Lightning's general setup: the networks to the device, then divided, then the optimizer built on shards."""
        # not ModelParallelStrategy's: it would have the LightningModule divide itself, and knows one device placement
        ParallelStrategy.setup(self, trainer)

    def model_to_device(self) -> None:
        """Moves the module; with offloading its buffers only, for parameters stay in host memory."""
        assert self.model is not None
        if not self.cpu_offload:
            self.model.to(self.root_device)
            return
        for part in self.model.modules():
            for name, buffer in list(part.named_buffers(recurse=False)):
                setattr(part, name, buffer.to(self.root_device))

    def _setup_model(self, model: nn.Module) -> nn.Module:
        method = cast(Trainable, model).method
        if not is_sharded(model):  # a second fit or a validation finds it done
            copy_from_first(model, self.root_device)
            if self.parallelize_fn is not None:
                self.parallelize_fn(cast(LightningModule, model), self.device_mesh)
            else:
                shard(method, self._options())
            check_complete(model)
            check_alignment(method)
            if self.is_global_zero:
                logger.info(self._description(method))
        return model

    def _options(self) -> Options:
        pins = self.root_device.type == "cuda"  # pinning needs CUDA's driver
        return Options(
            mesh=sharding_mesh(self.device_mesh),
            policy=self.mp_policy.policy(self.precision_plugin.precision),
            reshard_after_forward=self.reshard_after_forward,
            offload=CPUOffloadPolicy(pin_memory=pins) if self.cpu_offload else OffloadPolicy(),
        )

    def _description(self, method: Method) -> str:
        names = self.device_mesh.mesh_dim_names or ()
        sizes = " x ".join(f"{name} {size}" for name, size in zip(names, self.device_mesh.shape, strict=True))
        lines = [f"strategy fsdp2, {self.world_size} processes, mesh {sizes}"]
        lines += [
            f"  {part.name:<18}{part.num_units:>4} units {part.num_parameters:>13,} parameters "
            f"{part.num_bytes / 2**20:>9,.1f} MiB on this device"
            for part in subtrees(method)
        ]
        return "\n".join(lines)

    @contextmanager
    def block_backward_sync(self) -> Generator[None, None, None]:
        """Around micro-batches that are not the last of their step."""
        self._is_last_micro_batch = False
        try:
            yield
        finally:
            self._is_last_micro_batch = True

    def pre_backward(self, closure_loss: Tensor) -> None:
        """Keeps gradients whole during the backward pass, if they are to be averaged once a step."""
        super().pre_backward(closure_loss)
        if not self.reduce_every_micro_batch:
            assert self.model is not None
            keep_gradients_whole(self.model)

    def post_backward(self, closure_loss: Tensor) -> None:
        """Averages them after the last micro-batch."""
        super().post_backward(closure_loss)
        if not self.reduce_every_micro_batch and self._is_last_micro_batch:
            assert self.model is not None
            reduce_gradients(self.model)

    def on_validation_start(self) -> None:
        """Makes evaluation independent of which process sees an image."""
        assert self.lightning_module is not None
        average_running_statistics(self.lightning_module)
