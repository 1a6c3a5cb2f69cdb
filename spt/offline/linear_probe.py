"""Linear evaluation: all learning rates and choices of layers in one pass, the best chosen on training images."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from spt.config.errors import ConfigError
from spt.data.module import ImageData, SampleLoader
from spt.evaluation.rows import Rows
from spt.offline.embedder import Embedder, FeatureRows
from spt.offline.linear_heads import LinearHeads
from spt.offline.linear_protocol import LinearProtocol
from spt.views.draws import HELD_OUT_STREAM, ORDER_STREAM, hashes

# N images, B images of a step, L learning rates, C classes

logger = logging.getLogger(__name__)

_PART = 4096  # images that are scored at once

Passes = Callable[[int], Iterator[FeatureRows]]
"""Batches of features and labels of one epoch."""


class Candidate(NamedTuple):
    """One classifier.

    Attributes:
        features: choice of layers.
        base_lr: at 256 images.
        top1: accuracy on the images that it is chosen by, in [0, 1].
    """

    features: str
    base_lr: float
    top1: float


class LinearResult(NamedTuple):
    """What a linear evaluation found.

    Attributes:
        top1: accuracy on the validation images, in [0, 1].
        features, base_lr: of the classifier that was chosen.
        candidates: all of them with their accuracy on held-out training images, which chose; empty for a single one.
        num_train: images that the reported classifier has learnt from.
        num_held_out: training images that chose; 0 where there was no choice.
        num_val: images that were scored.
    """

    top1: float
    features: str
    base_lr: float
    candidates: list[Candidate]
    num_train: int
    num_held_out: int
    num_val: int

    @property
    def split(self) -> str:
        """In words: what was scored, what was learnt from, what chose."""
        return f"{self.num_val} validation images, learnt from {self.num_train} training images, {self.chosen_by}"

    @property
    def chosen_by(self) -> str:
        """In words: the images that chose."""
        if not self.candidates:
            return "nothing to choose"
        return f"chosen of {len(self.candidates)} by {self.num_held_out} held-out training images"


def held_out_rows(labels: Tensor, *, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Positions of labelled training images to learn from, and of those that are kept to choose by.

    Which is which follows from the image's position and the seed alone.

    Args:
        labels: [N], int64; below 0 where an image has none.
        share: that is kept, in [0, 1).
        seed: of the choice.
    """
    rows = (labels >= 0).nonzero()[:, 0]
    keys = hashes(seed, HELD_OUT_STREAM, torch.zeros_like(rows), rows, 1)[:, 0]
    num_held_out = round(share * len(rows))
    order = keys.argsort(stable=True)
    return rows[order[num_held_out:]].sort().values, rows[order[:num_held_out]].sort().values


def linear_probe(
    embedder: Embedder, data: ImageData, protocol: LinearProtocol, *, held_out: float, refit: bool, seed: int
) -> LinearResult:
    """Trains, chooses, scores once.

    Args:
        embedder: of the protocol's choices of layers and its augmentation.
        data: with the embedder's views attached.
        protocol: what is done.
        held_out: share of the training images that choose, where there is a choice.
        refit: True: the chosen classifier learns anew from all training images; False: the one that was chosen is
            scored, which has not seen the held-out ones.
        seed: of the split, of the order of the images and of the weights at the start.

    Raises:
        ConfigError: no image is left to learn from or to choose by.
    """
    val = embedder.rows(data.val_dataloader()[1])
    val = val.chosen(val.labels >= 0)
    is_choice = len(embedder.features) * len(protocol.base_lrs) > 1
    everything, _ = held_out_rows(data.splits.train.labels, share=0.0, seed=seed)
    train, chooses = held_out_rows(data.splits.train.labels, share=held_out if is_choice else 0.0, seed=seed)
    if len(train) == 0 or (is_choice and len(chooses) == 0):
        raise ConfigError(
            f"held_out={held_out} of {len(everything)} labelled training images leaves {len(train)} to learn from and "
            f"{len(chooses)} to choose by; use held_out=0.1, or one protocol.base_lrs and one protocol.features."
        )
    is_cached = protocol.augmentation is None
    cached = embedder.rows(_unaugmented(data, everything)) if is_cached else None
    passes = _Passes(embedder, data, protocol, cached, seed)
    heads = passes.train(train, {wanted.name: protocol.base_lrs for wanted in embedder.features})
    if not is_choice:
        (name,), (base_lr,) = heads, protocol.base_lrs
        return LinearResult(_top1(heads, val)[name][0], name, base_lr, [], len(train), 0, len(val.labels))
    judged = embedder.rows(_unaugmented(data, chooses))
    candidates = [
        Candidate(name, base_lr, top1)
        for name, accuracies in _top1(heads, judged).items()
        for base_lr, top1 in zip(protocol.base_lrs, accuracies, strict=True)
    ]
    best = max(candidates, key=lambda candidate: candidate.top1)  # the first of equals: the smaller learning rate
    place = protocol.base_lrs.index(best.base_lr)
    if refit:
        heads, place, train = passes.train(everything, {best.features: [best.base_lr]}), 0, everything
    top1 = _top1({best.features: heads[best.features]}, val)[best.features][place]
    return LinearResult(top1, best.features, best.base_lr, candidates, len(train), len(chooses), len(val.labels))


class _Passes:
    """Trains classifiers on some of the training images."""

    def __init__(
        self, embedder: Embedder, data: ImageData, protocol: LinearProtocol, cached: FeatureRows | None, seed: int
    ) -> None:
        self.embedder = embedder
        self.data = data
        self.protocol = protocol
        self.cached = cached
        self.seed = seed

    def train(self, rows: Tensor, base_lrs: dict[str, list[float]]) -> dict[str, LinearHeads]:
        """Classifiers by choice of layers, after all passes over `rows`."""
        protocol, heads = self.protocol, dict[str, LinearHeads]()
        steps_per_epoch, step = -(-len(rows) // protocol.batch_size), 0
        for epoch in range(protocol.epochs):
            for batch in self._batches(rows, epoch):
                share = protocol.share(step, steps_per_epoch=steps_per_epoch)
                for name, bases in base_lrs.items():
                    if name not in heads:
                        heads[name] = self._start(batch.features[name], bases)
                    heads[name].step(batch.features[name], batch.labels, share=share)
                step += 1
            if epoch + 1 in {protocol.epochs, *range(0, protocol.epochs, max(1, protocol.epochs // 5))}:
                logger.debug("epoch %d/%d of %d images", epoch + 1, protocol.epochs, len(rows))
        return heads

    def _start(self, features: Tensor, bases: list[float]) -> LinearHeads:
        return LinearHeads(
            features.shape[1],
            self.data.num_classes,
            lrs=[self.protocol.lr(base) for base in bases],
            rule=self.protocol.rule,
            seed=self.seed,
            device=self.embedder.device,
        )

    def _batches(self, rows: Tensor, epoch: int) -> Iterator[FeatureRows]:
        if self.cached is None:
            batches = self.data.training_batches(rows, epoch=epoch, batch_size=self.protocol.batch_size)
            yield from self.embedder.augmented(batches)
            return
        keys = hashes(self.seed, ORDER_STREAM, torch.full_like(rows, epoch), rows, 1)[:, 0]
        for places in _places(self.cached, rows[keys.argsort(stable=True)]).split(self.protocol.batch_size):
            yield self.cached.chosen(places)


def _unaugmented(data: ImageData, rows: Tensor) -> SampleLoader:
    return data.evaluation_batches(data.splits.train, rows)


def _places(cached: FeatureRows, rows: Tensor) -> Tensor:
    """Where images of these positions in the training set are; those that could not be read are left out."""
    places = torch.full((int(cached.indices.max()) + 1,), -1, device=cached.indices.device)
    places[cached.indices] = torch.arange(len(cached.indices), device=places.device)
    rows = rows.to(places.device)
    found = places[rows[rows < len(places)]]
    return found[found >= 0]


def _top1(heads: dict[str, LinearHeads], rows: FeatureRows) -> dict[str, list[float]]:
    """Accuracy of every classifier, by choice of layers and in the order of its learning rates."""
    return {name: _accuracies(several, rows.rows(name)) for name, several in heads.items()}


def _accuracies(heads: LinearHeads, rows: Rows) -> list[float]:
    correct = torch.zeros(len(heads.lrs), dtype=torch.float64, device=rows.labels.device)  # [L]
    # a part at a time: logits of all classifiers at once may not fit
    for features, labels in zip(rows.embeddings.split(_PART), rows.labels.split(_PART), strict=True):
        correct += (heads.logits(features).argmax(dim=2) == labels).sum(1)
    return [float(count) / len(rows.labels) for count in correct]
