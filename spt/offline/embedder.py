"""Images of a data set to features, each image once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from spt.config.errors import ConfigError
from spt.evaluation.rows import Rows
from spt.offline.features import FeatureSet, compute_features
from spt.offline.network import Network
from spt.types import Sample
from spt.views.view import View
from spt.views.views import Views

# B images of a batch, M images in all, D features

_HALVES = {"bf16": torch.bfloat16, "16": torch.float16}


class FeatureRows(NamedTuple):
    """Images with their features.

    Attributes:
        features: [M, D] by the name of the choice of layers, float32.
        labels: [M], int64; below 0 where an image has none.
        indices: [M], int64, position of each image in its data set.
    """

    features: dict[str, Tensor]
    labels: Tensor
    indices: Tensor

    def rows(self, name: str) -> Rows:
        """Those of one choice."""
        return Rows(self.features[name], self.labels, self.indices)

    def chosen(self, places: Tensor) -> FeatureRows:
        """The rows at these places, [n], int64 or bool."""
        features = {name: columns[places] for name, columns in self.features.items()}
        return FeatureRows(features, self.labels[places], self.indices[places])


class Embedder:
    """A network that stands still, with its views, on its device.

    Args:
        network: to be evaluated.
        augmentation: how images of a training pass are changed; None where there is none.
        features: choices of layers.
        precision: in Lightning's words.
        device: where it runs.
        seed: of the augmentation.

    Attributes:
        views: cuts the images to the network's size, also in data workers.
    """

    def __init__(
        self,
        network: Network,
        *,
        augmentation: View | None,
        features: Sequence[FeatureSet],
        precision: str,
        device: torch.device,
        seed: int,
    ) -> None:
        self.features = list(features)
        self.device = device
        self.precision = precision
        self.dtype = weight_type(precision)
        self.backbone = network.backbone.eval().to(device=device, dtype=self.dtype)
        self.views = make_views(network, augmentation, seed=seed)

    def rows(self, batches: Iterable[Sample]) -> FeatureRows:
        """Features of unaugmented images, in their order; images that could not be read are left out."""
        parts = [self._evaluated(batch) for batch in batches]
        names = [wanted.name for wanted in self.features]
        features = {name: torch.cat([part.features[name] for part in parts]) for name in names}
        return FeatureRows(
            features, torch.cat([part.labels for part in parts]), torch.cat([part.indices for part in parts])
        )

    def augmented(self, batches: Iterable[Sample]) -> Iterator[FeatureRows]:
        """Features of augmented images, batch by batch."""
        for batch in batches:
            sample = self._moved(batch)
            (view,), _ = self.views(sample)  # [B, 3, S, S]
            yield FeatureRows(self._features(view), sample.labels, sample.indices)

    def _evaluated(self, batch: Sample) -> FeatureRows:
        sample = self._moved(batch)
        found = FeatureRows(self._features(self.views.evaluation_view(sample.images)), sample.labels, sample.indices)
        return found.chosen(sample.indices >= 0)

    @torch.no_grad()
    def _features(self, images: Tensor) -> dict[str, Tensor]:
        with casting(self.precision, self.device):
            return compute_features(self.backbone, images.to(self.dtype), self.features)

    def _moved(self, batch: Sample) -> Sample:
        images = batch.images
        moved = [view.to(self.device) for view in images] if isinstance(images, list) else images.to(self.device)
        labels, indices, epochs = (column.to(self.device) for column in (batch.labels, batch.indices, batch.epochs))
        return Sample(moved, labels, indices, epochs)


def make_views(network: Network, augmentation: View | None, *, seed: int) -> Views:
    """One augmented view and the evaluated one, in the size and normalisation that the network knows."""
    size, crop, mean, std = network.inputs
    plain = augmentation or View(
        crop_scale=[1.0, 1.0], crop_ratio=[0.01, 100.0], interpolation="bicubic", flip=0.0, jitter=0.0, brightness=0.0,
        contrast=0.0, saturation=0.0, hue=0.0, brightness_mode="multiplicative", gray=0.0, blur=0.0,
        blur_sigma=[0.1, 2.0], blur_reference_size=size, solarize=0.0, solarize_threshold=0.5,
    )  # fmt: skip
    return Views(
        seed=seed, made_on="device", global_size=size, local_size=size, num_local_views=0, mean=mean, std=std,
        evaluation_crop=crop, local_view=None, global_views={"only": plain},
    )  # fmt: skip


def weight_type(precision: str) -> torch.dtype:
    """What weights are held in.

    Raises:
        ConfigError: there is no such precision.
    """
    bits, _, kind = precision.partition("-")
    if precision == "32-true" or (kind == "mixed" and bits in _HALVES):
        return torch.float32
    if kind == "true" and bits in _HALVES:
        return _HALVES[bits]
    raise ConfigError(f"precision={precision} does not exist; use precision=32-true|bf16-mixed|bf16-true|16-mixed.")


def casting(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """What a forward runs in."""
    bits, _, kind = precision.partition("-")
    return torch.autocast(device.type, dtype=_HALVES[bits]) if kind == "mixed" else nullcontext()


def choose_device(name: str) -> torch.device:
    """auto: the first GPU, where there is one.

    Raises:
        ConfigError: there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda") or (name == "cuda" and not torch.cuda.is_available()):
        raise ConfigError(
            f"device={name} is not there; use device={'cuda|cpu' if torch.cuda.is_available() else 'cpu'}."
        )
    return torch.device(name)
