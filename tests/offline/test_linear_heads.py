"""Classifiers that train together against torch's optimizers, one classifier at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from spt.offline.linear_heads import HeadRule, LinearHeads
from spt.optim.lars import LARS

# B=5 images, D=7 features, C=3 classes, L=4 classifiers
B, D, C, STEPS = 5, 7, 3, 6
LRS = [0.01, 0.1, 0.5, 3.0]
CPU = torch.device("cpu")


def rule(
    update: Literal["sgd", "lars"], *, nesterov: bool = False, normalise: Literal["none", "batch_norm"] = "none"
) -> HeadRule:
    return HeadRule(update, 0.9, nesterov, 0.02, 0.03, normalise, 0.3)


def batches() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(3)
    return [
        (2 + torch.randn(B, D, generator=generator), torch.randint(C, (B,), generator=generator)) for _ in range(STEPS)
    ]


def naive(lr: float, heads: LinearHeads, kind: HeadRule) -> nn.Sequential:
    """One classifier of torch, trained by torch's autograd and optimizer."""
    normalise = nn.BatchNorm1d(D, affine=False, eps=1e-6) if kind.normalise == "batch_norm" else nn.Identity()
    linear = nn.Linear(D, C)
    with torch.no_grad():
        linear.weight.copy_(heads.weights[0])
        linear.bias.zero_()
    groups: Iterable[dict[str, object]]
    if kind.update == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(
            linear.parameters(), lr, momentum=kind.momentum, nesterov=kind.nesterov, weight_decay=kind.weight_decay
        )
    else:
        groups = [
            {"params": [linear.weight], "weight_decay": kind.weight_decay},
            {"params": [linear.bias], "adapt": False, "weight_decay": 0.0},
        ]
        optimizer = LARS(
            groups, lr, momentum=kind.momentum, trust_coefficient=kind.trust_coefficient, momentum_form="lr_outside"
        )
    network = nn.Sequential(normalise, linear)
    for step, (features, labels) in enumerate(batches()):
        for group in optimizer.param_groups:
            group["lr"] = lr * (1 - step / STEPS)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(features), labels).backward()
        optimizer.step()
    return network.eval()


KINDS = {
    "sgd": rule("sgd"),
    "nesterov": rule("sgd", nesterov=True),
    "lars": rule("lars"),
    "standardised sgd": rule("sgd", normalise="batch_norm"),
    "standardised lars": rule("lars", normalise="batch_norm"),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_classifiers_that_train_together_end_as_each_would_alone_in_torch(kind: HeadRule) -> None:
    heads = LinearHeads(D, C, lrs=LRS, rule=kind, seed=1, device=CPU)
    alone = [naive(lr, heads, kind) for lr in LRS]
    for step, (features, labels) in enumerate(batches()):
        heads.step(features, labels, share=1 - step / STEPS)
    images = 2 + torch.randn(4, D)
    expected = torch.stack([network(images) for network in alone])  # [L, B, C]
    torch.testing.assert_close(heads.logits(images), expected, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(expected[0], expected[-1])


def test_an_images_logits_do_not_depend_on_the_others() -> None:
    """Trap 84."""
    heads = LinearHeads(D, C, lrs=LRS, rule=rule("sgd", normalise="batch_norm"), seed=1, device=CPU)
    for features, labels in batches():
        heads.step(features, labels, share=1.0)
    images = torch.randn(4, D)
    torch.testing.assert_close(heads.logits(images)[:, 2:3], heads.logits(images[2:3]))
