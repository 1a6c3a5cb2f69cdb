"""Softmax regression by gradient descent, without autograd."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from spt.distributed.gather import sum_over_ranks

# b images of a micro-batch, D embedding, C classes


class LinearClassifier:
    """A linear classifier on normalised embeddings, trained by SGD with momentum on the mean cross-entropy.

    Its gradient is written out rather than left to autograd, so nothing can reach the networks that made the
    embeddings. It starts at
    zero: the problem is convex and needs no random start. Everything is float32, whatever the precision of the
    pretraining.

    Args:
        num_classes: C.
        lr: learning rate.
        momentum: velocity = momentum * velocity + gradient; weights -= lr * velocity.
        weight_decay: added to the gradient as weight_decay * weight, biases left out.
    """

    def __init__(self, num_classes: int, *, lr: float, momentum: float, weight_decay: float) -> None:
        self.num_classes = num_classes
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self._weights: Tensor | None = None  # [C, D + 1], the last column holds the biases
        self._velocity: Tensor | None = None  # [C, D + 1]
        self._gradient: Tensor | None = None  # [C, D + 2], sums over images; the last column counts them

    def logits(self, embeddings: Tensor) -> Tensor:
        """[b, D] -> [b, C]; zeros before the first step."""
        inputs = features(embeddings)  # [b, D + 1]
        if self._weights is None:
            return inputs.new_zeros(len(inputs), self.num_classes)
        return inputs @ self._weights.to(inputs.device).T

    def add(self, embeddings: Tensor, labels: Tensor) -> None:
        """Adds the gradient of a micro-batch to that of the coming step.

        Args:
            embeddings: [b, D], any precision.
            labels: [b], int64; images with a label below 0 are left out.
        """
        inputs = features(embeddings)  # [b, D + 1]
        # a product with 0 or 1, for a selection would wait for the device
        is_labelled = (labels >= 0).to(inputs)[:, None]  # [b, 1]
        targets = F.one_hot(labels.clamp(min=0), self.num_classes).to(inputs)  # [b, C]
        errors = (self.logits(embeddings).softmax(dim=1) - targets) * is_labelled  # [b, C]
        counts = is_labelled.sum().expand(self.num_classes, 1)  # [C, 1], beside the gradient to share one all-reduce
        gradient = torch.cat([errors.T @ inputs, counts], dim=1)  # [C, D + 2]
        self._gradient = gradient if self._gradient is None else self._gradient + gradient

    def step(self) -> None:
        """One step on the mean gradient of all images that any process added since the last."""
        self._descend(sum_over_ranks(self._sum()))

    def step_alone(self) -> None:
        """One step on the mean gradient of all images that this process added since the last."""
        self._descend(self._sum())

    def _sum(self) -> Tensor:
        assert self._gradient is not None, "a step follows at least one micro-batch"
        return self._gradient

    def _descend(self, total: Tensor) -> None:
        gradient = total[:, :-1] / total[:, -1:].clamp(min=1)  # [C, D + 1]
        if self._weights is None or self._velocity is None:
            self._weights, self._velocity = torch.zeros_like(gradient), torch.zeros_like(gradient)
        weights, velocity = self._weights.to(gradient.device), self._velocity.to(gradient.device)
        decay = self.weight_decay * weights
        decay[:, -1] = 0
        self._velocity = self.momentum * velocity + gradient + decay
        self._weights = weights - self.lr * self._velocity
        self._gradient = None

    def state_dict(self) -> dict[str, Tensor]:
        """{"weights", "velocity"}, each [C, D + 1]; empty before the first step."""
        if self._weights is None or self._velocity is None:
            return {}
        return {"weights": self._weights, "velocity": self._velocity}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Takes over what `state_dict` gave."""
        self._weights, self._velocity = state.get("weights"), state.get("velocity")


def features(embeddings: Tensor) -> Tensor:
    """[b, D] -> [b, D + 1]: embeddings with mean 0 and length 1, and a constant 1 for the biases.

    Each image is normalised by itself: statistics of the batch would tell one image's prediction about the others.
    Length 1 rather than LayerNorm's sqrt(D) makes one learning rate fit every width.
    """
    embeddings = embeddings.float()
    width = embeddings.shape[1]
    normalised = F.layer_norm(embeddings, (width,)) / width**0.5  # [b, D]
    return F.pad(normalised, (0, 1), value=1.0)  # [b, D + 1]
