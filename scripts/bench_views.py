"""The SimCLR views of this project, a batch at a time, against torchvision image by image, and kornia when installed.

    python scripts/bench_views.py
    python scripts/bench_views.py --size 96 --batch 128 --rounds 9
    python scripts/bench_views.py --size 32 --operations

All make the same augmentation, with the same numbers (crop, flip, jitter, grey, blur, floats), of the same random
images in one process on one thread, in turns. torchvision gets PIL images, as data loaders do, and its conversion to
a tensor counts; decoding does not. Its second version gets tensors, image by image too: of a batch it would make one
draw for all. kornia gets the batch and draws for every image, but one order of the jitter for all; it cuts crops and
blurs in one of two ways, whichever is faster at that size. Blur: torchvision and kornia take a kernel of a tenth of
the side, as SimCLR; this project's has the same sigmas and is not cut off. --operations: crops with one operation each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torchvision import transforms
from torchvision.transforms import v2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.timing import Cell, middle, ratio, report, take_turns
from spt.config.build import build_module
from spt.types import Sample
from spt.views.view import View
from spt.views.views import Views

OURS = "spt"
WHOLE = "all"
# what of a recipe stays on beside the crop
OPERATIONS: dict[str, Sequence[str]] = {
    "crop": (),
    "flip": ("flip",),
    "jitter": ("jitter", "brightness", "contrast", "saturation"),
    "hue": ("jitter", "hue"),
    "gray": ("gray",),
    "blur": ("blur",),
}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, nargs="+", default=[32, 224], help="pixels of the images and their views")
    parser.add_argument("--batch", type=int, default=None, help="images; by default 256 at 32 pixels, 36 at 224")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--operations", action="store_true", help="one by one, beside all together")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Cell]] = []
    for size in arguments.size:
        batch = arguments.batch or max(16, 256 * 32 // size)
        images = torch.randint(256, (batch, 3, size, size), dtype=torch.uint8)
        views = _views(size)
        for operation in [WHOLE, *(OPERATIONS if arguments.operations else [])]:
            view = views.views[0] if operation == WHOLE else _with_only(views.views[0], OPERATIONS[operation])
            rows += _rows(images, views, view, operation, arguments.rounds)
    report("views", "one augmented view of every image, SimCLR's recipe, one thread", rows)
    if find_spec("kornia") is None:
        print('kornia is not installed: pip install -e ".[bench]" adds it to the table')


def _rows(images: Tensor, views: Views, view: View, operation: str, rounds: int) -> list[dict[str, Cell]]:
    """A row for every contestant."""
    size = images.shape[-1]
    contestants = {
        OURS: _ours(images, views, view),
        "torchvision": _torchvision(images, size, view),
        "torchvision.v2": _torchvision_v2(images, size, view),
    }
    if find_spec("kornia") is not None:
        contestants["kornia"] = _kornia(images, size, view)
    laps = take_turns(contestants, rounds=rounds, steps=1)
    rows: list[dict[str, Cell]] = []
    for name in contestants:
        times, lead = middle(laps[name]), ratio(laps[name], laps[OURS])
        rows.append(
            {
                "pixels": size,
                "batch": len(images),
                "operations": operation,
                "by": name,
                "views/s": len(images) / times.clock,
                "times ours": lead.clock,
                "by processor": lead.processor,
            }
        )
    return rows


def _views(size: int) -> Views:
    """SimCLR's, whose inputs are not normalised."""
    return build_module(spt.compose("data=fake", f"data.image_size={size}", "method=simclr", "backbone=resnet18")).views


def _with_only(view: View, kept: Sequence[str]) -> View:
    """The view with its other operations off."""
    names = {name for operation in OPERATIONS.values() for name in operation}
    return replace(view, **dict.fromkeys(names - set(kept), 0.0))


def _ours(images: Tensor, views: Views, view: View) -> Callable[[], object]:
    size, indices = images.shape[-1], torch.arange(len(images))
    one = Views(
        seed=0, made_on="device", global_size=size, local_size=size, num_local_views=0, mean=views.mean, std=views.std,
        evaluation_crop=1.0, local_view=None, global_views={"only": view},
    )  # fmt: skip
    sample = Sample(images, indices, indices, torch.zeros_like(indices))
    return lambda: one(sample)


def _kernel(size: int) -> int:
    """A tenth of the side, odd: SimCLR's."""
    return max(3, size // 10 // 2 * 2 + 1)


def _sigmas(size: int, view: View) -> tuple[float, float]:
    """Pixels of a view of this size."""
    low, high = (sigma * size / view.blur_reference_size for sigma in view.blur_sigma)
    return low, high


def _torchvision(images: Tensor, size: int, view: View) -> Callable[[], object]:
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
    pipeline = transforms.Compose([*_steps(transforms, size, view), transforms.ToTensor()])
    return lambda: torch.stack([pipeline(picture) for picture in pictures])


def _torchvision_v2(images: Tensor, size: int, view: View) -> Callable[[], object]:
    pipeline = v2.Compose([*_steps(v2, size, view), v2.ToDtype(torch.float32, scale=True)])
    return lambda: torch.stack([pipeline(image) for image in images])


def _steps(of: object, size: int, view: View) -> list[torch.nn.Module]:
    """The view by the classes of either version of torchvision's transforms, which have the same names."""
    assert of in (transforms, v2)
    strengths = (view.brightness, view.contrast, view.saturation, view.hue)
    steps = [
        of.RandomResizedCrop(
            size, scale=tuple(view.crop_scale), ratio=tuple(view.crop_ratio),
            interpolation=transforms.InterpolationMode(view.interpolation),
        )
    ]  # fmt: skip
    steps += [of.RandomHorizontalFlip(view.flip)] if view.flip else []
    steps += [of.RandomApply([of.ColorJitter(*strengths)], p=view.jitter)] if view.jitter else []
    steps += [of.RandomGrayscale(p=view.gray)] if view.gray else []
    blur = of.GaussianBlur(_kernel(size), sigma=_sigmas(size, view))
    return steps + ([of.RandomApply([blur], p=view.blur)] if view.blur else [])


def _kornia(images: Tensor, size: int, view: View) -> Callable[[], object]:
    """The faster one of two ways: warped crops and blur by a square kernel; or sliced crops and blur by two lines."""
    ways = {
        name: _kornia_pipeline(images, size, view, cropping_mode=name, is_separable=name == "slice")
        for name in ("resample", "slice")
    }
    laps = take_turns(ways, rounds=2, steps=1)
    return ways[min(ways, key=lambda name: middle(laps[name]).processor)]


def _kornia_pipeline(
    images: Tensor, size: int, view: View, *, cropping_mode: str, is_separable: bool
) -> Callable[[], object]:
    import kornia.augmentation as K

    kernel = (_kernel(size), _kernel(size))
    strengths = (view.brightness, view.contrast, view.saturation, view.hue)
    steps = [
        K.RandomResizedCrop(
            (size, size), scale=tuple(view.crop_scale), ratio=tuple(view.crop_ratio), resample=view.interpolation,
            align_corners=False, cropping_mode=cropping_mode,
        )
    ]  # fmt: skip
    steps += [K.RandomHorizontalFlip(p=view.flip)] if view.flip else []
    steps += [K.ColorJitter(*strengths, p=view.jitter)] if view.jitter else []
    steps += [K.RandomGrayscale(p=view.gray)] if view.gray else []
    blur = K.RandomGaussianBlur(kernel, _sigmas(size, view), p=view.blur, separable=is_separable)
    pipeline = torch.nn.Sequential(*steps, *([blur] if view.blur else []))
    return lambda: pipeline(images.float() / 255)


if __name__ == "__main__":
    main()
