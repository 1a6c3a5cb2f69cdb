"""Every method's step as a plain PyTorch loop: the limit that the framework is measured against.

The networks, the augmentations and the masks are the framework's own, for these must be the same work; everything else
is written out as one would in a script of one file: no Lightning, no logging, no checks, no probes, no schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.dino import DINO
from spt.module import SSLModule
from spt.types import Masks, Progress, Sample

# B images per device, V views

Loss = Callable[[nn.Module, Sequence[Tensor], Sequence[Tensor], Masks | None], Tensor]


def _encode(branch: nn.Module, views: Sequence[Tensor]) -> Tensor:
    """[VB, P]: all views of one size in one forward, all in one through the head."""
    sizes = list(dict.fromkeys(view.shape[-1] for view in views))
    features = [
        branch.backbone(torch.cat([view for view in views if view.shape[-1] == size])).embeddings for size in sizes
    ]
    return cast(Tensor, branch.head(torch.cat(features)))


def simclr(method: nn.Module, globals_: Sequence[Tensor], locals_: Sequence[Tensor], masks: Masks | None) -> Tensor:
    """NT-Xent over one matrix of similarities."""
    rows = F.normalize(_encode(method.networks.student, globals_), dim=-1)  # [2B, P]
    logits = (rows @ rows.T / method.temperature).fill_diagonal_(float("-inf"))
    partners = torch.arange(len(rows)).roll(len(rows) // 2)
    return 2 * F.cross_entropy(logits, partners)


def byol(method: nn.Module, globals_: Sequence[Tensor], locals_: Sequence[Tensor], masks: Masks | None) -> Tensor:
    """Each view predicts the other; BatchNorm sees one view at a time."""
    with torch.no_grad():
        targets = [_encode(method.networks.teacher, [view]) for view in globals_]
    first, second = (method.predictor(_encode(method.networks.student, [view])) for view in globals_)
    return 4 - 2 * (F.cosine_similarity(first, targets[1]) + F.cosine_similarity(second, targets[0])).mean()


def dino(method: nn.Module, globals_: Sequence[Tensor], locals_: Sequence[Tensor], masks: Masks | None) -> Tensor:
    """Every crop against the teacher's other global crop; the center follows at once."""
    center = method.center.center
    with torch.no_grad():
        logits = _encode(method.networks.teacher, globals_)
        targets = ((logits - center) / 0.04).softmax(-1).chunk(2)
        center.lerp_(logits.mean(0), 1 - method.center.momentum)
    views = [*globals_, *locals_]
    student = (_encode(method.networks.student, views) / method.student_temperature).log_softmax(-1).chunk(len(views))
    # the two targets weigh alike: crops that meet both meet their sum
    both = targets[0] + targets[1]
    loss = -(targets[1] * student[0]).sum() - (targets[0] * student[1]).sum()
    if locals_:
        loss = loss - sum((both * crop).sum() for crop in student[2:])
    return loss / (len(globals_[0]) * (2 * len(views) - 2))


def ijepa(method: nn.Module, globals_: Sequence[Tensor], locals_: Sequence[Tensor], masks: Masks | None) -> Tensor:
    """Predicted tokens of the hidden blocks against the teacher's."""
    assert masks is not None
    images = globals_[0]
    with torch.no_grad():
        tokens = method.networks.teacher(images).tokens
        tokens = F.layer_norm(tokens, tokens.shape[-1:])
        positions = masks.targets[..., None].expand(-1, -1, -1, tokens.shape[-1])
        targets = tokens.expand(len(positions), -1, -1, -1).gather(2, positions)
    seen = method.networks.student(images, keep=masks.context).tokens
    return F.smooth_l1_loss(method.predictor(seen, masks.context, masks.targets), targets)


LOSSES: dict[str, Loss] = {"byol": byol, "dino": dino, "ijepa": ijepa, "simclr": simclr}


class BareLoop:
    """One step at a time, over images that are in memory.

    Args:
        module: its networks are trained, and must be nobody else's; views, masks and update rule are taken over.
        name: of the method.
        samples: what the loop goes round.
    """

    def __init__(self, module: SSLModule, name: str, samples: Sequence[Sample]) -> None:
        self.method, self.views, self.masks, self.recipe = module.method, module.views, module.masks, module.recipe
        self.loss, self.samples, self.place = LOSSES[name], samples, 0
        self.moved = [parameter for parameter in self.method.parameters() if parameter.requires_grad]
        self.student = list(self.method.networks.student.parameters())
        self.teacher = list(self.method.networks.teacher.parameters()) if self.method.networks.has_teacher else []
        self.optimizer = self.recipe.build(self.method)

    def step(self) -> None:
        """Views, loss, gradients, clipping, weights, teacher."""
        sample = self.samples[self.place % len(self.samples)]
        global_views, local_views = self.views(sample)
        masks = None if self.masks is None else self.masks(sample, Progress(self.place, 10000, 100))
        self.place += 1
        loss = self.loss(self.method, global_views, local_views, masks)
        self.optimizer.zero_grad()
        loss.backward()
        if self.recipe.clip_norm is not None:
            self._clip(self.recipe.clip_norm)
        self.optimizer.step()
        with torch.no_grad():
            if self.teacher:
                torch._foreach_lerp_(self.teacher, self.student, 0.004)

    def _clip(self, max_norm: float) -> None:
        """Each gradient by its own norm, as DINO does."""
        assert isinstance(self.method, DINO), "only DINO clips"
        gradients = [parameter.grad for parameter in self.moved if parameter.grad is not None]
        norms = torch.stack(torch._foreach_norm(gradients))
        torch._foreach_mul_(gradients, list((max_norm / (norms + 1e-6)).clamp(max=1).unbind()))
