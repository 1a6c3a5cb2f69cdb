"""All views of one recipe, made together: an operation on few small images is mostly the call of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from spt.types import Sample
from spt.views.boxes import DRAWS
from spt.views.draws import uniform
from spt.views.resample import crop_and_resize
from spt.views.view import COLOR_DRAWS, View, flip

# B images per device, P views of one recipe, S pixels of a view

_CACHED = 2**19  # floats of images that a CPU holds in its cache beside what is made of them


def make_alike(
    view: View, sample: Sample, *, seed: int, places: list[int], size: int, normalise: Callable[[Tensor], Tensor]
) -> Sequence[Tensor]:
    """P views of every image.

    Args:
        view: the recipe of all P.
        sample: images as one tensor [B, 3, H, W], or crops of all views, ready made.
        seed: of the run.
        places: of the P views in the order of all; neighbours.
        size: S.
        normalise: from colours in [0, 1] to what the network sees; may change them.

    Returns:
        P of [B, 3, S, S], float32.
    """
    device, num_images = sample.indices.device, len(sample.indices)
    streams = torch.arange(2 * places[0], 2 * places[-1] + 2, device=device)[:, None]
    draws = uniform(seed, streams, sample.epochs, sample.indices, max(DRAWS, COLOR_DRAWS))  # [2P, B, count]
    changes = view.changes(draws[1::2, :, :COLOR_DRAWS].flatten(0, 1), size)  # of P * B crops
    order = torch.arange(len(places) * num_images, device=device)
    if view.jitter > 0:
        order = changes.jitter.hue_place.argsort()  # as `jitter` likes them
        changes = changes.of(order)
    crop = _cropper(view, sample.images, draws[::2, :, :DRAWS].flatten(0, 1), places, size)
    parts = _parts(len(places), num_images, size, device)
    made = []
    for part in parts:
        some = changes.of(part)
        made.append(normalise(view.recolor(crop(order[part], some.is_flipped), some)))
    if view.jitter == 0:
        return (torch.cat(made) if len(made) > 1 else made[0]).chunk(len(places))
    views = made[0].new_empty(len(order), 3, size, size)
    for part, some_views in zip(parts, made, strict=True):
        views.index_copy_(0, order[part], some_views)
    return views.chunk(len(places))


def _cropper(
    view: View, images: Tensor | list[Tensor], draws: Tensor, places: list[int], size: int
) -> Callable[[Tensor, Tensor], Tensor]:
    """From numbers of some of P * B crops, and whether each is flipped, to these crops as floats."""
    if isinstance(images, list):
        ready = torch.cat([images[place] for place in places])  # [P * B, 3, S, S]
        return lambda numbers, is_flipped: flip(to_floats(ready.index_select(0, numbers)), is_flipped)
    height, width = images.shape[-2:]
    boxes = view.boxes(draws, height=height, width=width)

    def crop(numbers: Tensor, is_flipped: Tensor) -> Tensor:
        some = images.index_select(0, numbers % len(images))
        return crop_and_resize(some, boxes.of(numbers), size, view.interpolation, is_flipped)

    return crop


def to_floats(images: Tensor) -> Tensor:
    """Bytes to float32 in [0, 1]."""
    return images.float().div_(255)


def _parts(num_views: int, num_images: int, size: int, device: torch.device) -> list[slice]:
    """Rows of num_views * num_images crops: as many as fit a CPU's cache; elsewhere the images of a view."""
    total = num_views * num_images
    count = -(-total // max(1, _CACHED // (3 * size**2))) if device.type == "cpu" else num_views
    step = -(-total // count)
    return [slice(start, min(start + step, total)) for start in range(0, total, step)]
