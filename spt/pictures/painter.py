"""What draws: a painter is given what is to be seen, and says how it is drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from spt.pictures.evaluation import Evaluation
from spt.pictures.sheet import Images
from spt.types import Batch

Drawing = Callable[[str], Figure]
"""From the words that say when, such as "step 100", to the figure."""


class Colors(NamedTuple):
    """How views were normalised.

    Attributes:
        mean: [3], subtracted from the channels.
        std: [3], divided by.
    """

    mean: list[float]
    std: list[float]

    def pixels(self, images: Tensor) -> Images:
        """[n, 3, S, S], normalised, any precision -> [n, S, S, 3] in [0, 1]."""
        scale, offset = torch.tensor(self.std).view(3, 1, 1), torch.tensor(self.mean).view(3, 1, 1)
        whole: Images = (images.detach().float().cpu() * scale + offset).clamp(0, 1).permute(0, 2, 3, 1).numpy()
        return whole


class BatchPainter(ABC):
    """Draws what a method is given in a training step."""

    @abstractmethod
    def paint(self, batch: Batch, colors: Colors) -> Drawing | None:
        """How a micro-batch of rank 0 is drawn; None where there is nothing of the kind."""


class EvaluationPainter(ABC):
    """Draws what the evaluated network makes of images.

    It draws no random number and leaves networks, gradients and modes alone: pretrained weights are bit-identical with
    and without it.
    """

    @abstractmethod
    def paint(self, evaluation: Evaluation, colors: Colors) -> Drawing | None:
        """How it is drawn; None where there is nothing of the kind.

        Called by all processes, so networks may be called and rows gathered here; the drawing itself by rank 0 alone.
        """
