"""From decoded images to the views that a method sees."""

from __future__ import annotations

from itertools import groupby
from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from spt.config.errors import ConfigError
from spt.types import Sample
from spt.views.boxes import DRAWS, random_boxes
from spt.views.draws import hashes, uniform
from spt.views.pipeline import Pipeline, Transform
from spt.views.reduced import Box, crop_reduced, largest_reduction
from spt.views.resample import apply_separable, resize_bytes, resize_weights
from spt.views.together import make_alike, to_floats
from spt.views.view import View

# B images per device, V global views, L local views, H, W pixels of the image, S, s pixels of global, local views


class Views(nn.Module):
    """The views of every image: global ones, then small local ones; and the one plain view that is evaluated.

    A view's place in that order selects its random numbers, which depend on (seed, place, epoch, index) alone.

    Args:
        seed: of the run.
        made_on: device: views are made a batch at a time, and only crops of images that differ in size in data workers;
            worker: image by image in data workers, by torchvision.
        global_size: S, pixels of global views and of the evaluated view.
        local_size: s, pixels of local views.
        num_local_views: L; 0 for no multi-crop.
        mean: of the three channels in [0, 1], taken off last.
        std: of the three channels, divided by last.
        evaluation_crop: side of the central crop as a share of the resized image's shorter side.
        local_view: how local views are made; None when there can be none.
        global_views: how each global view is made, in order; the names are for people. With made_on=worker each of
            these, and the local view, may be any transform that `Pipeline` takes.

    Raises:
        ConfigError: no global view, or local views that nothing says how to make, or a share outside (0, 1], or
            views of the user's own on the device.
    """

    def __init__(
        self,
        *,
        seed: int,
        made_on: Literal["device", "worker"],
        global_size: int,
        local_size: int,
        num_local_views: int,
        mean: list[float],
        std: list[float],
        evaluation_crop: float,
        local_view: View | Transform | None,
        global_views: dict[str, View | Transform],
    ) -> None:
        super().__init__()
        if not global_views:
            raise ConfigError("views.global_views is empty: a method has nothing to see; use views=simclr.")
        if num_local_views > 0 and local_view is None:
            raise ConfigError(
                f"views.num_local_views={num_local_views}, but these views do not say how a local view is made; "
                "use views=dino or views.num_local_views=0."
            )
        if min(global_size, local_size) < 1 or num_local_views < 0:
            raise ConfigError("views.global_size and views.local_size are pixels and must be at least 1.")
        if not 0 < evaluation_crop <= 1:
            raise ConfigError(f"views.evaluation_crop={evaluation_crop} is a share; use a number above 0, at most 1.")
        self.seed = seed
        self.made_on = made_on
        self.global_size = global_size
        # plain floats, not buffers: bf16-true would round a buffer, and a copy to the device would wait for it
        self.mean = mean
        self.std = std
        self.evaluation_crop = evaluation_crop
        local_views = [] if local_view is None else [local_view] * num_local_views
        self.num_global_views = len(global_views)
        self.sizes = [global_size] * len(global_views) + [local_size] * len(local_views)
        recipes = [*global_views.values(), *local_views]
        self.views = [] if made_on == "worker" else _batched(recipes, made_on)
        self.pipelines = _pipelines(recipes, self.sizes) if made_on == "worker" else []

    def forward(self, sample: Sample) -> tuple[list[Tensor], list[Tensor]]:
        """Augmented, normalised views on the sample's device.

        Args:
            sample: images as one tensor [B, 3, H, W], or as the V + L results of `crop`; with made_on=worker as these.

        Returns:
            V global views [B, 3, S, S] and L local views [B, 3, s, s], float32.
        """
        if self.made_on == "worker":
            assert isinstance(sample.images, list), "workers make the views"
            finished = [self._normalise(to_floats(view)) for view in sample.images]
            return finished[: self.num_global_views], finished[self.num_global_views :]
        # autocast would take the resampling to half precision
        with torch.autocast(sample.indices.device.type, enabled=False):
            views: list[Tensor] = []
            for (view, size), alike in groupby(
                range(len(self.views)), lambda place: (self.views[place], self.sizes[place])
            ):
                views += make_alike(
                    view, sample, seed=self.seed, places=list(alike), size=size, normalise=self._normalise
                )
        return views[: self.num_global_views], views[self.num_global_views :]

    @property
    def makes_whole_views(self) -> bool:
        """Workers make the views from the image to the last colour."""
        return self.made_on == "worker"

    def draws(self, epochs: Tensor, indices: Tensor) -> Tensor:
        """What the crops, or with made_on=worker the views, of images in data workers follow from.

        Args:
            epochs: [B], int64, pass over the data.
            indices: [B], int64, position in the data set.

        Returns:
            [B, V + L, boxes.DRAWS], in [0, 1); with made_on=worker [B, V + L], int64, seeds.
        """
        places = range(len(self.sizes))
        if self.made_on == "worker":
            return torch.cat([hashes(self.seed, 2 * place, epochs, indices, 1) for place in places], dim=1)
        return torch.stack([uniform(self.seed, 2 * place, epochs, indices, DRAWS) for place in places], dim=1)

    def crop(self, image: Image.Image | Tensor, draws: Tensor) -> list[Tensor]:
        """The V + L random crops of one image of any size, before colours; with made_on=worker after them.

        Args:
            image: of PIL, or [3, H, W], uint8.
            draws: one image's row of `draws`.

        Returns:
            [3, S, S] or [3, s, s] each, uint8.
        """
        decoded = _to_bytes(image)
        if self.made_on == "worker":
            return [pipeline(decoded, seed) for pipeline, seed in zip(self.pipelines, draws.tolist(), strict=True)]
        return self.cut(decoded, self.boxes(decoded.shape[1], decoded.shape[2], draws), 1)

    def boxes(self, height: int, width: int, draws: Tensor) -> list[Box]:
        """Where `crop` takes the V + L crops from an image of this size, which need not be decoded yet.

        Args:
            height: of the image, in pixels.
            width: of the image, in pixels.
            draws: [V + L, boxes.DRAWS], one image's row of `draws`.
        """
        # in one call for all views whose boxes are drawn alike: a call costs more than what it computes
        alike: dict[tuple[float, ...], list[int]] = {}
        for place, view in enumerate(self.views):
            alike.setdefault((*view.crop_scale, *view.crop_ratio), []).append(place)
        found: dict[int, Box] = {}
        for (*scale, low, high), places in alike.items():
            boxes = random_boxes(draws[places], height=height, width=width, scale=scale, ratio=[low, high])
            found |= {place: Box(*sides) for place, sides in zip(places, torch.stack(boxes, 1).tolist(), strict=True)}
        return [found[place] for place in range(len(self.views))]

    def largest_reduction(self, boxes: list[Box], pixel_ratio: float) -> int:
        """How many times smaller an image may be decoded for these crops, see `reduced.largest_reduction`."""
        return largest_reduction(boxes, self.sizes, pixel_ratio)

    def cut(self, image: Image.Image | Tensor, boxes: list[Box], reduction: int) -> list[Tensor]:
        """As `crop`, from boxes in pixels of the whole image, of which `image` may be a smaller version of PIL.

        Args:
            image: decoded `reduction` times smaller.
            boxes: of `boxes`.
            reduction: 1 for the whole image.
        """
        if reduction > 1:
            assert isinstance(image, Image.Image), "only JPEGs are decoded smaller"
            return [
                crop_reduced(image, box, reduction, size, view.interpolation)
                for view, box, size in zip(self.views, boxes, self.sizes, strict=True)
            ]
        decoded = _to_bytes(image)
        return [
            view.crop_one(decoded, box, size) for view, box, size in zip(self.views, boxes, self.sizes, strict=True)
        ]

    def evaluation_view(self, images: Tensor | list[Tensor]) -> Tensor:
        """The plain view that is evaluated: shorter side resized, center cropped, normalised. No randomness.

        Args:
            images: [B, 3, H, W], uint8; or a list of one [B, 3, S, S], uint8, already made by `evaluation_crop_of`.

        Returns:
            [B, 3, S, S], float32.
        """
        if isinstance(images, list):
            return self._normalise(to_floats(images[0]))
        with torch.autocast(images.device.type, enabled=False):
            height, width = images.shape[-2:]
            resized_height, resized_width = self._resized(height, width)
            rows = self._central_weights(height, resized_height, images.device)  # [1, S, H]
            columns = self._central_weights(width, resized_width, images.device)  # [1, S, W]
            return self._normalise(apply_separable(to_floats(images), rows, columns).clamp(0, 1))

    def evaluation_crop_of(self, image: Image.Image | Tensor) -> Tensor:
        """The evaluated view of one image of any size, not yet normalised: [3, S, S], uint8. For data workers.

        Args:
            image: of PIL, or [3, H, W], uint8.
        """
        decoded = _to_bytes(image)
        height, width = self._resized(decoded.shape[1], decoded.shape[2])
        top, left = self._margin(height), self._margin(width)
        resized = resize_bytes(decoded, height, width, "bicubic")
        return resized[:, top : top + self.global_size, left : left + self.global_size].contiguous()

    def _resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the whole image once its shorter side has the size that the central crop is cut from."""
        shorter = round(self.global_size / self.evaluation_crop)
        if height <= width:
            return shorter, int(shorter * width / height)
        return int(shorter * height / width), shorter

    def _margin(self, resized: int) -> int:
        return round((resized - self.global_size) / 2)

    def _central_weights(self, in_size: int, resized: int, device: torch.device) -> Tensor:
        starts = torch.zeros(1, dtype=torch.int64, device=device)
        lengths = torch.full_like(starts, in_size)
        # bicubic, as DINO and most others evaluate
        weights = resize_weights(starts, lengths, in_size=in_size, out_size=resized, interpolation="bicubic")
        return weights[:, self._margin(resized) : self._margin(resized) + self.global_size]

    def _normalise(self, images: Tensor) -> Tensor:
        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            if (mean, std) != (0, 1):
                images[:, channel].sub_(mean).div_(std)
        return images


def _batched(recipes: list[View | Transform], made_on: str) -> list[View]:
    """The recipes, all of which must be of views that can be made a batch at a time."""
    if made_on != "device":
        raise ConfigError(f"views.made_on={made_on} is unknown; use views.made_on=device or views.made_on=worker.")
    views = [recipe for recipe in recipes if isinstance(recipe, View)]
    if len(views) < len(recipes):
        raise ConfigError(
            "views.made_on=device makes views a batch at a time, and views.global_views or views.local_view holds a "
            "transform of single images; use views.made_on=worker."
        )
    return views


def _pipelines(recipes: list[View | Transform], sizes: list[int]) -> list[Pipeline]:
    return [Pipeline(recipe, size) for recipe, size in zip(recipes, sizes, strict=True)]


def _to_bytes(image: Image.Image | Tensor) -> Tensor:
    if isinstance(image, Tensor):
        return image
    colours = image if image.mode == "RGB" else image.convert("RGB")  # which would copy
    return torch.from_numpy(np.array(colours)).permute(2, 0, 1)  # [3, H, W]
