"""The SimCLR views of this project, a batch at a time, against torchvision image by image, and kornia when installed.

    python scripts/bench_views.py
    python scripts/bench_views.py --size 96 --batch 128 --rounds 9

All make the same augmentation (crop, flip, jitter, grey, blur, floats) of the same random images in one process on
one thread, in turns. torchvision gets PIL images, as data loaders do, and its conversion to a tensor counts; decoding
does not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torchvision import transforms

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.timing import Cell, middle, ratio, report, take_turns
from spt.config.build import build_module
from spt.types import Sample

OURS = "spt"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, nargs="+", default=[32, 224], help="pixels of the images and their views")
    parser.add_argument("--batch", type=int, default=None, help="images; by default 256 at 32 pixels, 32 at 224")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Cell]] = []
    for size in arguments.size:
        batch = arguments.batch or max(16, 256 * 32 // size)
        images = torch.randint(256, (batch, 3, size, size), dtype=torch.uint8)
        contestants = _contestants(images, size)
        laps = take_turns(contestants, rounds=arguments.rounds, steps=1)
        for name in contestants:
            times, lead = middle(laps[name]), ratio(laps[name], laps[OURS])
            rows.append(
                {
                    "pixels": size,
                    "batch": batch,
                    "by": name,
                    "views/s": batch / times.clock,
                    "times ours": lead.clock,
                    "by processor": lead.processor,
                }
            )
    report("views", "one augmented view of every image, SimCLR's recipe, one thread", rows)
    if find_spec("kornia") is None:
        print("kornia is not installed: pip install kornia adds it to the table")


def _contestants(images: Tensor, size: int) -> dict[str, Callable[[], object]]:
    views = build_module(
        spt.compose("data=fake", f"data.image_size={size}", "method=simclr", "backbone=resnet18")
    ).views
    view = views.views[0]
    indices = torch.arange(len(images))
    one = type(views)(
        seed=0, made_on="device", global_size=size, local_size=size, num_local_views=0, mean=views.mean, std=views.std,
        evaluation_crop=1.0, local_view=None, global_views={"only": view},
    )  # fmt: skip
    sample = Sample(images, indices, indices, torch.zeros_like(indices))
    found: dict[str, Callable[[], object]] = {OURS: lambda: one(sample), "torchvision": _torchvision(images, size)}
    if find_spec("kornia") is not None:
        found["kornia"] = _kornia(images, size)
    return found


def _kernel(size: int) -> int:
    """A tenth of the side, odd: SimCLR's."""
    return max(3, size // 10 // 2 * 2 + 1)


def _torchvision(images: Tensor, size: int) -> Callable[[], object]:
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
    blur = transforms.GaussianBlur(_kernel(size), sigma=(0.1, 2.0))
    pipeline = transforms.Compose(
        [
            transforms.RandomResizedCrop(size, scale=(0.08, 1.0), interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.RandomHorizontalFlip(),
            transforms.RandomApply([transforms.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
            transforms.RandomGrayscale(p=0.2),
            transforms.RandomApply([blur], p=0.5),
            transforms.ToTensor(),
        ]
    )
    return lambda: torch.stack([pipeline(picture) for picture in pictures])


def _kornia(images: Tensor, size: int) -> Callable[[], object]:
    import kornia.augmentation as K

    pipeline = torch.nn.Sequential(
        K.RandomResizedCrop((size, size), scale=(0.08, 1.0), resample="bicubic"),
        K.RandomHorizontalFlip(),
        K.ColorJitter(0.8, 0.8, 0.8, 0.2, p=0.8),
        K.RandomGrayscale(p=0.2),
        K.RandomGaussianBlur((_kernel(size), _kernel(size)), (0.1, 2.0), p=0.5),
    )
    return lambda: pipeline(images.float() / 255)


if __name__ == "__main__":
    main()
