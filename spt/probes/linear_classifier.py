"""Softmax regression by gradient descent, without autograd."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from spt.distributed.gather import sum_over_ranks

# b images of a micro-batch, D embedding, C classes

_SMALLEST_VARIANCE = 1e-5  # added to every variance, as BatchNorm does


class LinearClassifier:
    """A linear classifier on standardised embeddings, trained by SGD with momentum on the mean cross-entropy.

    Its gradient is written out rather than left to autograd, so nothing can reach the networks that made the
    embeddings. It starts at zero, for the problem is convex and needs no random start, and its first step only
    measures. Everything is float32, whatever the precision of the pretraining.

    Embeddings are standardised by running means and variances of the training batches, also in training: without, a
    direction that all images share drowns what tells them apart; with statistics of the batch at hand, an image's
    prediction would depend on the others.

    Args:
        num_classes: C.
        lr: learning rate.
        momentum: velocity = momentum * velocity + gradient; weights -= lr * velocity.
        weight_decay: added to the gradient as weight_decay * weight, biases left out.
        statistics_momentum: share of the old mean and variance that stays at each step.
    """

    def __init__(
        self, num_classes: int, *, lr: float, momentum: float, weight_decay: float, statistics_momentum: float
    ) -> None:
        self.num_classes = num_classes
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.statistics_momentum = statistics_momentum
        self._statistics: Tensor | None = None  # [2, D], running mean of embeddings and of their squares
        self._weights: Tensor | None = None  # [C, D + 1], the last column holds the biases
        self._velocity: Tensor | None = None  # [C, D + 1]
        self._sums: Tensor | None = None  # [C + 2, D + 2]: gradient, embeddings, squares; the last column counts

    def logits(self, embeddings: Tensor) -> Tensor:
        """[b, D] -> [b, C]; zeros before the first step."""
        if self._weights is None:
            return embeddings.new_zeros(len(embeddings), self.num_classes, dtype=torch.float32)
        return self._features(embeddings) @ self._weights.to(embeddings.device).T

    def add(self, embeddings: Tensor, labels: Tensor) -> None:
        """Adds what a micro-batch teaches to the coming step.

        Args:
            embeddings: [b, D], any precision.
            labels: [b], int64; images with a label below 0 are left out.
        """
        embeddings = embeddings.float()
        # a product with 0 or 1, for a selection would wait for the device
        is_labelled = (labels >= 0).to(embeddings)[:, None]  # [b, 1]
        moments = torch.stack([(embeddings * is_labelled).sum(0), (embeddings.square() * is_labelled).sum(0)])  # [2, D]
        gradient = embeddings.new_zeros(self.num_classes, embeddings.shape[1] + 1)  # [C, D + 1]
        if self._statistics is not None:
            inputs = self._features(embeddings)  # [b, D + 1]
            targets = F.one_hot(labels.clamp(min=0), self.num_classes).to(inputs)  # [b, C]
            errors = (self.logits(embeddings).softmax(dim=1) - targets) * is_labelled  # [b, C]
            gradient = errors.T @ inputs
        rows = torch.cat([gradient, F.pad(moments, (0, 1))])  # [C + 2, D + 1]
        sums = torch.cat([rows, is_labelled.sum().expand(len(rows), 1)], dim=1)  # one tensor, to share one all-reduce
        self._sums = sums if self._sums is None else self._sums + sums

    def step(self) -> None:
        """One step on the mean gradient of all images that any process added since the last."""
        self._descend(sum_over_ranks(self._collected()))

    def step_alone(self) -> None:
        """One step on the mean gradient of all images that this process added since the last."""
        self._descend(self._collected())

    def _collected(self) -> Tensor:
        assert self._sums is not None, "a step follows at least one micro-batch"
        return self._sums

    def _descend(self, total: Tensor) -> None:
        means = total[:, :-1] / total[:, -1:].clamp(min=1)  # [C + 2, D + 1]
        gradient, moments = means[:-2], means[-2:, :-1]  # [C, D + 1], [2, D]
        self._sums = None
        if self._statistics is None or self._weights is None or self._velocity is None:
            self._statistics = moments  # all that the first step does
            self._weights, self._velocity = torch.zeros_like(gradient), torch.zeros_like(gradient)
            return
        self._statistics = self._statistics.to(moments.device).lerp(moments, 1 - self.statistics_momentum)
        weights, velocity = self._weights.to(gradient.device), self._velocity.to(gradient.device)
        decay = self.weight_decay * weights
        decay[:, -1] = 0
        self._velocity = self.momentum * velocity + gradient + decay
        self._weights = weights - self.lr * self._velocity

    def state_dict(self) -> dict[str, Tensor]:
        """{"weights", "velocity"}, each [C, D + 1], and "statistics" [2, D]; empty before the first step."""
        if self._weights is None or self._velocity is None or self._statistics is None:
            return {}
        return {"weights": self._weights, "velocity": self._velocity, "statistics": self._statistics}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Takes over what `state_dict` gave."""
        self._weights, self._velocity = state.get("weights"), state.get("velocity")
        self._statistics = state.get("statistics")

    def _features(self, embeddings: Tensor) -> Tensor:
        """[b, D] -> [b, D + 1]: standardised, of length about 1 so that one lr fits every width, and a constant 1."""
        assert self._statistics is not None, "the first step sets them"
        mean, square = self._statistics.to(embeddings.device)
        deviation = (square - mean.square()).clamp(min=0).add(_SMALLEST_VARIANCE).sqrt()
        standardised = (embeddings.float() - mean) / (deviation * len(mean) ** 0.5)  # [b, D]
        return F.pad(standardised, (0, 1), value=1.0)  # [b, D + 1]
