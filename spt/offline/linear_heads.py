"""Many linear classifiers on the same features, trained at once."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# B images, D features, C classes, L classifiers

_SMALLEST_VARIANCE = 1e-6  # as MAE's probe: BatchNorm1d(affine=False, eps=1e-6)
_STATISTICS_MOMENTUM = 0.1  # of torch's BatchNorm


class HeadRule(NamedTuple):
    """How classifiers move.

    Attributes:
        update: sgd | lars. LARS scales the step of every weight matrix by its norm over its gradient's, biases left
            out (arXiv 1708.03888, as MAE's util/lars.py).
        momentum: velocity = momentum * velocity + gradient.
        nesterov: the step looks ahead along the velocity; for sgd.
        weight_decay: added to the gradient as weight_decay * weight; for lars not to biases, for sgd as torch does.
        trust_coefficient: of lars.
        normalise: none | batch_norm: features are standardised, in training by the batch's own mean and variance and
            in evaluation by their running averages.
        init_std: of the normal distribution that weights start from; biases start at 0.
    """

    update: Literal["sgd", "lars"]
    momentum: float
    nesterov: bool
    weight_decay: float
    trust_coefficient: float
    normalise: Literal["none", "batch_norm"]
    init_std: float


class LinearHeads:
    """L classifiers on one choice of features, alike but for their learning rates, which start from the same weights.

    The mean cross-entropy of each has its gradient written out, so that one product serves all of them. None feels the
    others: each ends as it would alone. Everything is float32.

    Args:
        num_features: D.
        num_classes: C.
        lrs: L peak learning rates.
        rule: how they move.
        seed: of the weights that they start from.
        device: where they are.
    """

    def __init__(
        self, num_features: int, num_classes: int, *, lrs: list[float], rule: HeadRule, seed: int, device: torch.device
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        start = rule.init_std * torch.randn(num_classes, num_features, generator=generator)  # [C, D]
        self.rule = rule
        self.lrs = torch.tensor(lrs, device=device)[:, None, None]  # [L, 1, 1]
        self.weights = start.to(device).repeat(len(lrs), 1, 1)  # [L, C, D]
        self.biases = torch.zeros(len(lrs), num_classes, 1, device=device)  # [L, C, 1]
        self._velocities: list[Tensor] = []  # of weights and biases
        self._mean = torch.zeros(num_features, device=device)
        self._variance = torch.ones(num_features, device=device)

    def logits(self, features: Tensor) -> Tensor:
        """[B, D] -> [L, B, C], each image's own whatever the others are."""
        return self._logits(self._standardised(features.float(), self._mean, self._variance))

    def step(self, features: Tensor, labels: Tensor, *, share: float) -> None:
        """One step of every classifier.

        Args:
            features: [B, D].
            labels: [B], int64, in [0, C).
            share: of every peak learning rate, by the schedule.
        """
        inputs = self._inputs(features.float())  # [B, D]
        targets = F.one_hot(labels, self.weights.shape[1]).to(inputs)  # [B, C]
        errors = (self._logits(inputs).softmax(dim=2) - targets) / len(labels)  # [L, B, C]
        gradients = [errors.transpose(1, 2) @ inputs, errors.sum(1)[..., None]]  # [L, C, D], [L, C, 1]
        parameters = [self.weights, self.biases]
        updates = [
            self._update(gradient, parameter, adapts=place == 0)
            for place, (gradient, parameter) in enumerate(zip(gradients, parameters, strict=True))
        ]
        moving = self._velocities or [torch.zeros_like(update) for update in updates]
        self._velocities = [
            self.rule.momentum * velocity + update for velocity, update in zip(moving, updates, strict=True)
        ]
        for parameter, update, velocity in zip(parameters, updates, self._velocities, strict=True):
            direction = update + self.rule.momentum * velocity if self.rule.nesterov else velocity
            parameter -= share * self.lrs * direction

    def _update(self, gradient: Tensor, parameter: Tensor, *, adapts: bool) -> Tensor:
        if self.rule.update == "sgd":
            return gradient + self.rule.weight_decay * parameter
        if not adapts:
            return gradient
        decayed = gradient + self.rule.weight_decay * parameter
        norms, steps = (_norms(tensor) for tensor in (parameter, decayed))  # [L, 1, 1], of each classifier's own
        trust = torch.where((norms > 0) & (steps > 0), self.rule.trust_coefficient * norms / steps, 1.0)
        return trust * decayed

    def _logits(self, inputs: Tensor) -> Tensor:
        return torch.einsum("bd,lcd->lbc", inputs, self.weights) + self.biases.transpose(1, 2)

    def _inputs(self, features: Tensor) -> Tensor:
        if self.rule.normalise == "none":
            return features
        variance, mean = torch.var_mean(features, dim=0, correction=0)  # [D]
        unbiased = variance * (len(features) / max(len(features) - 1, 1))
        self._mean = self._mean.lerp(mean, _STATISTICS_MOMENTUM)
        self._variance = self._variance.lerp(unbiased, _STATISTICS_MOMENTUM)
        return self._standardised(features, mean, variance)

    def _standardised(self, features: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        if self.rule.normalise == "none":
            return features
        return (features - mean) / (variance + _SMALLEST_VARIANCE).sqrt()


def _norms(tensors: Tensor) -> Tensor:
    return tensors.square().sum(dim=(1, 2), keepdim=True).sqrt()
