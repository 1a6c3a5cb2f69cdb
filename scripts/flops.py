"""How much of the machine a training step uses: its floating-point operations against a large matrix product's rate."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from scripts.timing import Lap
from spt.method import Method
from spt.types import Batch, Progress

SIDE = 2048  # of the square matrices: their product is far from waiting for memory


def step_flops(method: Method, batch: Batch) -> int:
    """Operations of one step of a method, forward and backward, a multiplication and an addition as two.

    Matrix products, convolutions and attention as its products count, those of the teacher too; augmentations, norms,
    activations, the update rule and the moving average do not.

    Args:
        method: gets gradients; nothing else of it is of use afterwards.
        batch: ready views and masks.
    """
    # the counter knows no fused attention on CPUs
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        method.step(batch, Progress(0, 100, 10)).loss.backward()
    return int(counter.get_total_flops())


def matrix_product() -> Callable[[], object]:
    """One product of two random float32 matrices on this process's threads, to be timed."""
    a, b = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    out = torch.empty(SIDE, SIDE)
    return lambda: torch.mm(a, b, out=out)


def share_of_peak(flops: int, *, step: Lap, product: Lap) -> float:
    """The rate of a step over the rate of the matrix product, by processor time; at most about 1.

    Args:
        flops: of the step.
        step: how long it took.
        product: how long one `matrix_product` took on the same threads.
    """
    return (flops / step.processor) / (2 * SIDE**3 / product.processor)
