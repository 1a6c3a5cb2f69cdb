"""What a linear evaluation does, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spt.config.errors import ConfigError
from spt.offline.linear_heads import HeadRule
from spt.schedules import half_cosine
from spt.views.view import View


@dataclass(frozen=True)
class LinearProtocol:
    """One published way to train a linear classifier on a network that stands still.

    Attributes:
        features: choices of layers, see spt.offline.features; of several the best is chosen.
        base_lrs: peak learning rates at 256 images; of several the best is chosen.
        batch_size: images of one step; base_lrs grow in proportion to it.
        epochs: passes over the training images.
        warmup_epochs: passes over which the learning rate rises from 0; then half a cosine to 0, step by step.
        update: sgd | lars.
        momentum: of the update.
        nesterov: of sgd.
        weight_decay: of the update.
        trust_coefficient: of lars.
        normalise: none | batch_norm, of the features, without affine.
        init_std: of the weights; biases start at 0.
        augmentation: of the training images, anew in every pass; None: features are computed once and kept in memory.
    """

    features: list[str]
    base_lrs: list[float]
    batch_size: int
    epochs: int
    warmup_epochs: float
    update: Literal["sgd", "lars"]
    momentum: float
    nesterov: bool
    weight_decay: float
    trust_coefficient: float
    normalise: Literal["none", "batch_norm"]
    init_std: float
    augmentation: View | None

    def __post_init__(self) -> None:
        """Refuses numbers that mean nothing.

        Raises:
            ConfigError: says what to type.
        """
        if not self.features or not self.base_lrs:
            raise ConfigError("protocol.features and protocol.base_lrs need at least one entry each.")
        if min(self.batch_size, self.epochs) < 1 or self.warmup_epochs < 0 or min(self.base_lrs) <= 0:
            raise ConfigError(
                "protocol.batch_size and protocol.epochs are at least 1, protocol.base_lrs above 0, and "
                "protocol.warmup_epochs is not negative."
            )
        if self.update not in ("sgd", "lars") or self.normalise not in ("none", "batch_norm"):
            raise ConfigError(
                f"protocol.update={self.update}, protocol.normalise={self.normalise}: use sgd or lars, and none or "
                "batch_norm."
            )
        if self.update == "lars" and self.nesterov:
            raise ConfigError("protocol.nesterov=true is for protocol.update=sgd; use protocol.nesterov=false.")

    @property
    def rule(self) -> HeadRule:
        """How classifiers move."""
        return HeadRule(
            self.update, self.momentum, self.nesterov, self.weight_decay, self.trust_coefficient, self.normalise,
            self.init_std,
        )  # fmt: skip

    def lr(self, base: float) -> float:
        """A peak learning rate at this batch size."""
        return base * self.batch_size / 256

    def share(self, step: int, *, steps_per_epoch: int) -> float:
        """Of the peak learning rate at a step."""
        warmup = round(self.warmup_epochs * steps_per_epoch)
        if step < warmup:
            return step / warmup
        return half_cosine(1.0, 0.0, (step - warmup) / max(self.epochs * steps_per_epoch - warmup, 1))
