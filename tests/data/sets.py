"""Small sets, views and loops for the tests of data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from spt.data.images import ImageSet, MemoryImages, Source, Splits
from spt.data.module import ImageData
from spt.data.placement import ImagesOn
from spt.views.reduced import Box


def make_images(num_images: int, *, num_classes: int = 3) -> MemoryImages:
    """Grey 5 x 4 images whose pixels all are their index."""
    values = torch.arange(num_images, dtype=torch.uint8)[:, None, None, None]
    return MemoryImages(values.expand(-1, 1, 5, 4), torch.arange(num_images) % num_classes)


@dataclass(frozen=True)
class Tiny:
    """A source in memory."""

    num_train: int
    num_val: int
    num_unlabelled: int = 0

    def prepare(self) -> None:
        """Nothing to fetch."""

    def load(self) -> Splits:
        """The first training images may lack a label."""
        train: ImageSet = make_images(self.num_train)
        train.labels[: self.num_unlabelled] = -1
        return Splits(train=train, val=make_images(self.num_val), num_classes=3)


def make_data(
    source: Source,
    *,
    global_batch_size: int = 6,
    evaluation_batch_size: int = 4,
    num_classes: int = 3,
    num_images: int | None = None,
    bank_size: int | None = None,
    num_workers: int = 0,
    images_on: ImagesOn = "auto",
    seed: int = 0,
) -> ImageData:
    """A data module over a source."""
    return ImageData(
        source=source,
        image_size=5,
        num_classes=num_classes,
        num_images=num_images,
        mean=[0.0, 0.0, 0.0],
        std=[1.0, 1.0, 1.0],
        evaluation_crop=1.0,
        bank_size=bank_size,
        global_batch_size=global_batch_size,
        evaluation_batch_size=evaluation_batch_size,
        num_workers=num_workers,
        pin_memory=True,
        images_on=images_on,
        seed=seed,
    )


def write_image(file: Path, value: int, *, height: int = 9, width: int = 12) -> Path:
    """A JPEG or PNG of one grey, by the file's ending."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (width, height), (value, value, value)).save(file)
    return file


def cut_short(file: Path) -> Path:
    """The file without its second half."""
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    return file


def write_folder(root: Path, *, num_train: int = 6, num_val: int = 3) -> Path:
    """Two classes, cat and dog, in turn; image i is grey 20 i in training and 10 i in validation."""
    for split, count, step in (("train", num_train, 20), ("val", num_val, 10)):
        for index in range(count):
            write_image(root / split / ("cat", "dog")[index % 2] / f"{index}.png", step * index)
    return root


class Mirror:
    """A cropper that gives two 2 x 2 crops of the image's first pixel, the second with the epoch added."""

    makes_whole_views = False

    def draws(self, epochs: Tensor, indices: Tensor) -> Tensor:
        """[B]: the epoch of each image."""
        return epochs

    def crop(self, image: Image.Image | Tensor, draws: Tensor) -> list[Tensor]:
        """[3, 2, 2] twice."""
        first = self.evaluation_crop_of(image)
        return [first, first + int(draws)]

    def boxes(self, height: int, width: int, draws: Tensor) -> list[Box]:
        """The whole image, twice."""
        return [Box(0, 0, height, width)] * 2

    def largest_reduction(self, boxes: list[Box], pixel_ratio: float) -> int:
        """None."""
        return 1

    def cut(self, image: Image.Image | Tensor, boxes: list[Box], reduction: int) -> list[Tensor]:
        """As `crop`, in epoch 0."""
        return [self.evaluation_crop_of(image)] * 2

    def evaluation_crop_of(self, image: Image.Image | Tensor) -> Tensor:
        """[3, 2, 2]."""
        assert isinstance(image, Image.Image)
        pixel = image.getpixel((0, 0))
        assert isinstance(pixel, tuple)
        return torch.full((3, 2, 2), pixel[0], dtype=torch.uint8)
