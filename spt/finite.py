"""What to say when a loss is not finite."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from spt.distributed.gather import is_on_any_rank
from spt.distributed.shards import local
from spt.method import Method
from spt.types import Batch, Progress


class NonFiniteLossError(RuntimeError):
    """The loss became infinite or not a number; the optimizer step was not taken.

    Args:
        step: optimizer step, from 0.
        loss: its value.
        culprit: the first tensor that is not finite.
    """

    def __init__(self, step: int, loss: float, culprit: str) -> None:
        super().__init__(
            f"The loss of optimizer step {step} is {loss}; training stopped before that step, and no weight moved. "
            f"First tensor that is not finite: {culprit}. "
            f"Try a lower learning rate (optimizer.lr), a longer warm-up, or precision=32-true."
        )


def first_bad_tensor(method: Method, batch: Batch, progress: Progress) -> str:
    """The name of the first tensor that is not finite, in the order in which a step makes them.

    Looks at the views, then at the parameters, then runs the step again and looks at every module's output. All
    processes call it together.
    """
    views = [*((f"global view {i}", view) for i, view in enumerate(batch.global_views)),
             *((f"local view {i}", view) for i, view in enumerate(batch.local_views))]  # fmt: skip
    # not at the buffers: running statistics carry whatever the forward just put there
    looked_at = [*views, *((name, local(parameter)) for name, parameter in method.named_parameters())]
    culprit = next((name for name, tensor in looked_at if not _is_finite(tensor)), None)
    if is_on_any_rank(culprit is not None, batch.global_views[0].device):  # else all ranks take the step again together
        return culprit or "on another device than this one"
    return _first_bad_output(method, batch, progress) or "the loss itself: every module's output is finite"


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def _first_bad_output(method: Method, batch: Batch, progress: Progress) -> str | None:
    found: list[str] = []
    names = {module: name for name, module in method.named_modules()}

    def look(module: nn.Module, inputs: object, outputs: object) -> None:
        if not found and not all(map(_is_finite, _tensors(outputs))):
            found.append(f"the output of {names[module]} ({type(module).__name__})")

    hooks = [module.register_forward_hook(look) for module in names]
    try:
        with torch.no_grad():
            type(method).step(method, batch, progress)  # not what a compiler may have put in its place: hooks must fire
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None


def _tensors(outputs: object) -> Iterable[Tensor]:
    if isinstance(outputs, Tensor):
        yield outputs
    elif isinstance(outputs, (tuple, list)):
        for output in outputs:
            yield from _tensors(output)
