"""What the rules need to know: plain values from the config and the machine. Nothing is built, no torch imported."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from spt.config.interpolations import flatten
from spt.config.machine import count_gpus, is_installed, resolve_accelerator, resolve_devices, slurm_tasks
from spt.config.targets import Literal, class_literals
from spt.config.tree import Plain


@dataclass(frozen=True)
class Facts:
    """Plain values about one experiment. None stands for what is not known before things are built; it breaks no rule.

    Attributes:
        method, backbone, data, strategy, precision: the options chosen.
        has_teacher, needs_tokens, needs_masks, needs_local_views, contrasts_batch, drops_gradients: of the method.
        gives_tokens: of the backbone.
        has_batch_norm: in the backbone or in the heads of the method.
        patch_size, global_size, local_size: pixels.
        num_local_views: small crops of one image.
        has_masks: masks are drawn.
        context_tokens: tokens that the masks leave to the context at least (min_keep).
        target_tokens: tokens of the smallest target block.
        largest_block: tokens of the largest block that may be drawn.
        num_images: training images; None before an image folder is listed.
        image_folder: where images are read from, if they are files in folders.
        image_folder_state: absent | empty | filled.
        global_batch_size: images of one optimizer step, over all devices and micro-batches.
        devices: processes on each node.
        accelerator: cpu | gpu | mps.
        max_epochs, max_steps: limits of the run; -1 for no limit, however it was written.
        learning_rate_warmups: passes over the data, by key: the learning rate rises over them.
        other_warmups: the same for every other schedule, such as the teacher's temperature.
        momentums: every number of a teacher's, center's, optimizer's or probe's momentum, by key.
        gpus: CUDA devices of this machine that may be used.
        slurm_tasks: tasks that SLURM started; None outside SLURM.
    """

    method: str | None = None
    has_teacher: bool | None = None
    needs_tokens: bool | None = None
    needs_masks: bool | None = None
    needs_local_views: bool | None = None
    contrasts_batch: bool | None = None
    drops_gradients: bool | None = None
    backbone: str | None = None
    gives_tokens: bool | None = None
    has_batch_norm: bool | None = None
    patch_size: int | None = None
    global_size: int | None = None
    local_size: int | None = None
    num_local_views: int | None = None
    has_masks: bool | None = None
    context_tokens: int | None = None
    target_tokens: int | None = None
    largest_block: int | None = None
    data: str | None = None
    num_images: int | None = None
    image_folder: str | None = None
    image_folder_state: str | None = None
    global_batch_size: int | None = None
    devices: int | None = None
    num_nodes: int | None = None
    accumulate_grad_batches: int | None = None
    accelerator: str | None = None
    strategy: str | None = None
    precision: str | None = None
    max_epochs: int | None = None
    max_steps: int | None = None
    learning_rate_warmups: tuple[tuple[str, float], ...] = ()
    other_warmups: tuple[tuple[str, float], ...] = ()
    momentums: tuple[tuple[str, float], ...] = ()
    gpus: int | None = None
    deepspeed_installed: bool | None = None
    slurm_tasks: int | None = None

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


def gather_facts(cfg: DictConfig, choices: Mapping[str, str]) -> Facts:
    """Facts of a composed config, on this machine.

    Args:
        cfg: composed, with every reference resolvable.
        choices: the option chosen in each group.
    """
    config = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(config, dict)
    values = flatten({key: node for key, node in config.items() if key != "hydra"})
    chosen = Facts(
        method=choices.get("method"),
        backbone=choices.get("backbone"),
        data=choices.get("data"),
        strategy=choices.get("strategy"),
        precision=choices.get("precision"),
        has_masks=bool(config.get("masks")),
    )
    return _with_run(_with_inputs(_with_networks(chosen, values), values), values)


def _with_networks(facts: Facts, values: Mapping[str, Plain]) -> Facts:
    method, backbone = _class_facts(values, "method"), _class_facts(values, "backbone")
    return replace(
        facts,
        has_teacher=_flag(method, "has_teacher"),
        needs_tokens=_flag(method, "needs_tokens"),
        needs_masks=_flag(method, "needs_masks"),
        needs_local_views=_flag(method, "needs_local_views"),
        contrasts_batch=_flag(method, "contrasts_batch"),
        drops_gradients=_flag(method, "drops_gradients"),
        gives_tokens=_flag(backbone, "gives_tokens"),
        has_batch_norm=_either(_flag(method, "has_batch_norm"), _flag(backbone, "has_batch_norm")),
        patch_size=_whole(values, "backbone.patch_size"),
        learning_rate_warmups=tuple(_warmups(values, "optimizer.")),
        other_warmups=tuple(_warmups(values, "method.")),
        momentums=tuple(_momentums(values)),
    )


def _with_inputs(facts: Facts, values: Mapping[str, Plain]) -> Facts:
    image_folder, image_folder_state = _image_folder(values, facts.data)
    smallest, largest = _block_sizes(values)
    return replace(
        facts,
        global_size=_whole(values, "views.global_size"),
        local_size=_whole(values, "views.local_size"),
        num_local_views=_whole(values, "views.num_local_views"),
        context_tokens=_whole(values, "masks.min_keep"),
        target_tokens=smallest,
        largest_block=largest,
        num_images=_whole(values, "data.num_images"),
        image_folder=image_folder,
        image_folder_state=image_folder_state,
        global_batch_size=_whole(values, "data.global_batch_size"),
    )


def _with_run(facts: Facts, values: Mapping[str, Plain]) -> Facts:
    accelerator = _text(values, "trainer.accelerator") or "auto"
    devices = values.get("trainer.devices")
    return replace(
        facts,
        devices=resolve_devices(devices, accelerator) if isinstance(devices, (int, str, list)) else None,
        num_nodes=_whole(values, "trainer.num_nodes"),
        accumulate_grad_batches=_whole(values, "trainer.accumulate_grad_batches"),
        accelerator=resolve_accelerator(accelerator),
        max_epochs=_limit(values, "trainer.max_epochs"),
        max_steps=_limit(values, "trainer.max_steps"),
        gpus=count_gpus(),
        deepspeed_installed=is_installed("deepspeed"),
        slurm_tasks=slurm_tasks(),
    )


def _text(values: Mapping[str, Plain], key: str) -> str | None:
    value = values.get(key)
    return value if isinstance(value, str) else None


def _whole(values: Mapping[str, Plain], key: str) -> int | None:
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _limit(values: Mapping[str, Plain], key: str) -> int | None:
    """A limit of the run, null being another way to write -1."""
    return -1 if key in values and values[key] is None else _whole(values, key)


def _class_facts(values: Mapping[str, Plain], node: str) -> dict[str, Literal]:
    target = _text(values, f"{node}._target_")
    return {} if target is None else class_literals(target)


def _flag(facts: Mapping[str, Literal], name: str) -> bool | None:
    value = facts.get(name)
    return value if isinstance(value, bool) else None


def _either(first: bool | None, second: bool | None) -> bool | None:
    """True when one is; unknown when neither is and one is not known."""
    if first or second:
        return True
    return None if first is None or second is None else False


def _image_folder(values: Mapping[str, Plain], data: str | None) -> tuple[str | None, str | None]:
    """Where training images are read from, and whether there are any."""
    root = _text(values, "data.source.root")
    if data != "image_folder" or root is None:
        return None, None
    folder = Path(root).expanduser()
    if not folder.is_dir():
        return root, "absent"
    return root, "filled" if any(folder.iterdir()) else "empty"


def _block_sizes(values: Mapping[str, Plain]) -> tuple[int | None, int | None]:
    """Tokens of the smallest target block and of the largest block of all, on the grid of the global views."""
    size, patch = _whole(values, "views.global_size"), _whole(values, "backbone.patch_size")
    smallest = _number(values.get("masks.target_scale.0"))
    upper = [_number(values.get(f"masks.{block}_scale.1")) for block in ("context", "target")]
    shares = [share for share in upper if share is not None]
    if size is None or not patch or smallest is None or not shares:
        return None, None
    tokens = (size // patch) ** 2
    return max(1, math.floor(smallest * tokens)), math.ceil(max(shares) * tokens)


def _number(value: Plain) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _warmups(values: Mapping[str, Plain], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in values.items():
        epochs = _number(value)
        if key.startswith(prefix) and key.endswith("warmup_epochs") and epochs is not None:
            yield key, epochs


def _momentums(values: Mapping[str, Plain]) -> Iterator[tuple[str, float]]:
    """Numbers called momentum in method, optimizer and probes, and those of schedules that are called so."""
    for key, value in values.items():
        group, *inner = key.split(".")
        number = _number(value)
        is_momentum = any(f"_{name}".endswith("_momentum") for name in inner) and not inner[-1].endswith("epochs")
        if group in ("method", "optimizer", "probes") and is_momentum and number is not None:
            yield key, number
