"""What the rules need to know: plain values from the config and the machine. Nothing is built, no torch imported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from spt.config.inputs import UNKNOWN, Inputs
from spt.config.resumed import Change


class RunFolder(NamedTuple):
    """Where a run writes.

    Attributes:
        path: absolute.
        is_new: it is named after the time, so that every start has another.
    """

    path: Path
    is_new: bool


@dataclass(frozen=True)
class Facts:
    """Plain values about one experiment. None stands for what is not known before things are built; it breaks no rule.

    Attributes:
        method, backbone, data, strategy, precision: the options chosen.
        has_teacher, needs_tokens, needs_masks, needs_local_views, contrasts_batch, drops_gradients, skips_parameters:
            of the method.
        gives_tokens: of the backbone.
        has_batch_norm: in the backbone or in the heads of the method.
        patch_size, global_size, local_size: pixels.
        position_size: pixels of the image whose grid the backbone's positions are made for.
        num_global_views: large views of one image.
        min_global_views: of the method: large views that its loss needs.
        num_local_views: small crops of one image.
        has_masks: masks are drawn.
        context_tokens: tokens that the masks leave to the context at least (min_keep).
        target_tokens: tokens of the smallest target block.
        largest_block: tokens of the largest block that may be drawn.
        num_images: training images; None before an image folder is listed.
        image_folder: where images are read from, if they are files in folders.
        image_folder_state: absent | empty | filled.
        inputs: where images are read and their views are made.
        global_batch_size: images of one optimizer step, over all devices and micro-batches.
        devices: processes on each node.
        accelerator: cpu | gpu | mps.
        max_epochs, max_steps: limits of the run; -1 for no limit, however it was written.
        too_small: numbers below the least that means something, by key, with that least.
        missing_checkpoint: the file or folder to go on from, if there is no such thing.
        incomplete_checkpoint: the checkpoint to go on from, if it is not whole.
        resumed_checkpoint: the one to go on from.
        resume_step: optimizer steps in it.
        resume_changes: of the config since it was written.
        later_checkpoint: one of more steps in the run's own folder.
        resumes_automatically: resume=auto.
        run_folder_is_new: the run folder is named after the time.
        missing_weights: what the backbone is to start from, if there is no such file; a run that goes on needs none.
        has_weights, freeze_steps: of the backbone: they are not random; first steps in which only heads train.
        learning_rate_warmups: passes over the data, by key: the learning rate rises over them.
        other_warmups: the same for every other schedule, such as the teacher's temperature.
        momentums: every number of a teacher's, center's, optimizer's or probe's momentum, by key.
        update_rule: the optimizer's, in words: adamw | sgd | lars.
        update_class: its class, without the package.
        num_optimizers: recipes anywhere in the config.
        clip_norm: greatest norm of gradients; None clips nothing.
        clip_unit: tensor | global.
        batch_norm_scope: local | global.
        has_sync_batch_norm: torch's SyncBatchNorm is named or asked for.
        compiles: torch.compile is asked for.
        compile_backend: of torch.compile.
        has_cpp_compiler: this machine has one.
        strategy_kind: what the strategy's class is: single | ddp | fsdp2 | deepspeed | fsdp.
        foreign_options: keys of the strategy that are another strategy's, with that strategy.
        find_unused_parameters: of ddp.
        replicate_size, data_parallel_size, tensor_parallel_size: of fsdp2; None for auto.
        has_mesh, has_parallelize_fn: a mesh, or a division of the network, of the user's own is given to fsdp2.
        resume_world_size: processes that wrote the DeepSpeed checkpoint to go on from; None for other checkpoints.
        gpus: CUDA devices of this machine that may be used.
        gpu_has_bfloat16: looked up for bfloat16 on GPUs only.
        torch_version: major and minor.
        slurm_tasks: tasks that SLURM started; None outside SLURM.
        in_slurm_step: srun started this process, not the script of a batch job.
        started_processes: those that torchrun started together with this one; None when it is alone.
    """

    method: str | None = None
    has_teacher: bool | None = None
    needs_tokens: bool | None = None
    needs_masks: bool | None = None
    needs_local_views: bool | None = None
    contrasts_batch: bool | None = None
    drops_gradients: bool | None = None
    skips_parameters: bool | None = None
    backbone: str | None = None
    gives_tokens: bool | None = None
    has_batch_norm: bool | None = None
    patch_size: int | None = None
    position_size: int | None = None
    global_size: int | None = None
    local_size: int | None = None
    num_global_views: int | None = None
    min_global_views: int | None = None
    num_local_views: int | None = None
    has_masks: bool | None = None
    context_tokens: int | None = None
    target_tokens: int | None = None
    largest_block: int | None = None
    data: str | None = None
    num_images: int | None = None
    image_folder: str | None = None
    image_folder_state: str | None = None
    inputs: Inputs = UNKNOWN
    global_batch_size: int | None = None
    devices: int | None = None
    num_nodes: int | None = None
    accumulate_grad_batches: int | None = None
    accelerator: str | None = None
    strategy: str | None = None
    precision: str | None = None
    max_epochs: int | None = None
    max_steps: int | None = None
    too_small: tuple[tuple[str, float, int], ...] = ()
    missing_checkpoint: str | None = None
    incomplete_checkpoint: str | None = None
    resumed_checkpoint: str | None = None
    resume_step: int | None = None
    resume_changes: tuple[Change, ...] = ()
    later_checkpoint: str | None = None
    resumes_automatically: bool | None = None
    run_folder_is_new: bool | None = None
    missing_weights: str | None = None
    has_weights: bool | None = None
    freeze_steps: int | None = None
    learning_rate_warmups: tuple[tuple[str, float], ...] = ()
    other_warmups: tuple[tuple[str, float], ...] = ()
    momentums: tuple[tuple[str, float], ...] = ()
    update_rule: str | None = None
    update_class: str | None = None
    num_optimizers: int | None = None
    clip_norm: float | None = None
    clip_unit: str | None = None
    batch_norm_scope: str | None = None
    has_sync_batch_norm: bool | None = None
    compiles: bool | None = None
    compile_backend: str | None = None
    has_cpp_compiler: bool | None = None
    strategy_kind: str | None = None
    foreign_options: tuple[tuple[str, str], ...] = ()
    find_unused_parameters: bool | None = None
    replicate_size: int | None = None
    data_parallel_size: int | None = None
    tensor_parallel_size: int | None = None
    has_mesh: bool | None = None
    has_parallelize_fn: bool | None = None
    resume_world_size: int | None = None
    gpus: int | None = None
    gpu_has_bfloat16: bool | None = None
    torch_version: tuple[int, int] | None = None
    deepspeed_installed: bool | None = None
    slurm_tasks: int | None = None
    in_slurm_step: bool | None = None
    started_processes: int | None = None

    @property
    def num_tokens(self) -> int | None:
        """Patches of one global view."""
        if self.global_size is None or self.patch_size is None or self.patch_size < 1:
            return None
        return (self.global_size // self.patch_size) ** 2

    @property
    def shares(self) -> int | None:
        """Micro-batches that one optimizer step is divided into, over devices, nodes and accumulation."""
        if self.devices is None or self.num_nodes is None or self.accumulate_grad_batches is None:
            return None
        return self.devices * self.num_nodes * self.accumulate_grad_batches

    @property
    def world_size(self) -> int | None:
        """Processes that train together."""
        return None if self.devices is None or self.num_nodes is None else self.devices * self.num_nodes

    @property
    def images_per_device(self) -> int | None:
        """Images of one micro-batch on one device."""
        if self.global_batch_size is None or not self.shares:
            return None
        return self.global_batch_size // self.shares

    @property
    def steps_per_epoch(self) -> int | None:
        """Optimizer steps of one pass: whole global batches only."""
        if self.num_images is None or self.global_batch_size is None or self.global_batch_size < 1:
            return None
        return self.num_images // self.global_batch_size

    @property
    def total_steps(self) -> int | None:
        """Optimizer steps of the run: the nearer of the two limits."""
        limits = []
        if self.max_steps is not None and self.max_steps > 0:
            limits.append(self.max_steps)
        if self.max_epochs is not None and self.max_epochs > 0:
            if self.steps_per_epoch is None:
                return None
            limits.append(self.max_epochs * self.steps_per_epoch)
        return min(limits, default=None)

    def warmup_steps(self, epochs: float) -> int | None:
        """Optimizer steps of a warm-up given in passes over the data."""
        return None if self.steps_per_epoch is None else round(epochs * self.steps_per_epoch)

    def with_data(self, num_images: int) -> Facts:
        """The same facts once the training images have been listed."""
        return replace(self, num_images=num_images)
