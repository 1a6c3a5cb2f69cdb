"""What passes between data, views, methods and the training loop."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

# B images per device, V global views, L local views, M target blocks, N tokens, D embedding, P projection


class Masks(NamedTuple):
    """Token positions in raster order, for methods that hide part of the image.

    Attributes:
        context: [B, N_context], int64, what the student sees.
        targets: [M, B, N_target], int64, what it must predict, one entry a block.
    """

    context: Tensor
    targets: Tensor


class Sample(NamedTuple):
    """What a data loader gives: decoded images before any augmentation.

    Attributes:
        images: [B, 3, H, W], uint8; or, when images differ in size, one entry a view, already cropped: list of
            [B, 3, S, S], uint8.
        labels: [B], int64. Only probes read them.
        indices: [B], int64, position of each image in its data set; -1 marks a padded duplicate that no metric may
            count.
        epochs: [B], int64, the pass over the data that each image belongs to. With the seed and the index it fixes
            the augmentation.
        masks: drawn on the host, as the sample leaves for its device, for methods that need them; None until then.
    """

    images: Tensor | list[Tensor]
    labels: Tensor
    indices: Tensor
    epochs: Tensor
    masks: Masks | None = None


class Batch(NamedTuple):
    """What a method sees: augmented views, never labels.

    Attributes:
        global_views: V tensors [B, 3, S, S], float32, normalised.
        local_views: L tensors [B, 3, s, s], float32, normalised; empty without multi-crop.
        masks: token positions for masked methods, else None.
    """

    global_views: list[Tensor]
    local_views: list[Tensor]
    masks: Masks | None = None


class Features(NamedTuple):
    """What a backbone gives.

    Attributes:
        embeddings: [B, D], one vector an image.
        tokens: [B, N, D], one vector a patch, after the final norm, class token left out; None for backbones without
            tokens.
    """

    embeddings: Tensor
    tokens: Tensor | None


class BranchOutput(NamedTuple):
    """What a branch (backbone and head) gives for V views, in the order of the views.

    Attributes:
        embeddings: [V, B, D], from the backbone.
        projections: [V, B, P], from the head.
    """

    embeddings: Tensor
    projections: Tensor


class StepOutput(NamedTuple):
    """What one training step of a method gives.

    Attributes:
        loss: scalar, float32, with gradient.
        embeddings: [B, D], detached, of the network that is evaluated, for online probes.
        metrics: scalars to log, keyed "train/name"; tensors stay on their device.
    """

    loss: Tensor
    embeddings: Tensor
    metrics: dict[str, Tensor | float]


class Progress(NamedTuple):
    """Where training is, in optimizer steps. Every schedule is a function of this and of nothing else.

    Attributes:
        step: the optimizer step about to be taken, from 0; micro-batches of one step share it.
        total_steps: optimizer steps of the whole run.
        steps_per_epoch: optimizer steps of one pass over the data.
    """

    step: int
    total_steps: int
    steps_per_epoch: int

    @property
    def epoch(self) -> int:
        """The pass over the data that the step belongs to, from 0."""
        return self.step // self.steps_per_epoch
