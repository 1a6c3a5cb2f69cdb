"""The lines with which a run opens and closes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def start_block(
    *,
    method: str,
    backbone: str,
    num_parameters: int,
    data: str,
    num_images: int,
    strategy: str,
    precision: str,
    accelerator: str,
    world_size: int,
    batch_size_per_device: int,
    accumulate_grad_batches: int,
    lr: float,
    total_steps: int,
    steps_per_epoch: int,
    folder: str | Path,
) -> str:
    """What is about to run, on one aligned line each.

    Args:
        num_parameters: of the backbone.
        num_images: training images.
        accelerator: as resolved: cpu | gpu | mps.
        batch_size_per_device: images of one micro-batch on one device.
        lr: peak learning rate, after scaling to the global batch.
        total_steps: optimizer steps of the whole run.
        folder: the run folder.
    """
    global_batch_size = batch_size_per_device * world_size * accumulate_grad_batches
    epochs = total_steps / steps_per_epoch
    rows = {
        "method": method,
        "backbone": f"{backbone}, {_count(num_parameters)} parameters",
        "data": f"{data}, {num_images:,} images",
        "devices": f"{world_size} x {accelerator}, strategy {strategy}, precision {precision}",
        "batch": f"{global_batch_size} images a step = {batch_size_per_device} a device x {world_size} "
        f"x {accumulate_grad_batches} accumulated",
        "lr": f"{lr:.4g} at its peak",
        "steps": f"{total_steps:,} = {epochs:g} epochs x {steps_per_epoch:,}",
        "folder": str(folder),
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())


def resume_block(checkpoint: Path, changes: Sequence[tuple[str, object, object]]) -> str:
    """What a run goes on from, and what is not as it was: a line for every key.

    Args:
        checkpoint: to go on from.
        changes: (key, value before, value now); None for a key that is not there.
    """
    lines = [f"going on from {checkpoint}" + ("; since then:" if changes else ", with nothing changed")]
    lines += [f"  {key}: {_shown(before)} -> {_shown(now)}" for key, before, now in changes]
    return "\n".join(lines)


def _shown(value: object) -> str:
    return "(not there)" if value is None else str(value)


def last_line(*, folder: str | Path, at_start: dict[str, float], metrics: dict[str, float]) -> str:
    """Where things are and how good the embedding is: `<folder>  val/knn_top1 0.641 -> 0.943`.

    Args:
        at_start: metrics of the untrained network.
        metrics: the latest ones.
    """
    name = "val/knn_top1"
    if name not in metrics:
        return str(folder)
    before = f"{at_start[name]:.3f} -> " if name in at_start else ""
    return f"{folder}  {name} {before}{metrics[name]:.3f}"


def _count(number: int) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)
