"""What several processes do to one checkpoint: it works for all of them, or all of them learn that it did not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException

from spt.config.errors import CheckpointError

Result = TypeVar("Result")


def process() -> int:
    """This process's number among all of them."""
    return dist.get_rank() if dist.is_initialized() else 0


def together(act: Callable[[], Result], doing: str, path: Path, *, on_first: bool = False) -> list[Result | None]:
    """What `act` gives on every process; None where it was not called.

    Args:
        act: raises OSError, RuntimeError (torch's own for files) or CheckpointError when it cannot be done.
        doing: for the message, such as "written".
        path: of the checkpoint.
        on_first: it is called on the first process alone.

    Raises:
        CheckpointError: on every process alike, with the first error of any of them. Without this, those that
            succeeded would wait for the others for ever.
    """
    result: Result | None = None
    error: str | None = None
    if not on_first or process() == 0:
        try:
            result = act()
        except CheckpointError as known:
            error = str(known)
        except (OSError, RuntimeError, CheckpointException) as reason:
            error = f"{path} could not be {doing}: {_reason(reason)}."
    outcomes: list[tuple[Result | None, str | None]] = [(result, error)]
    if dist.is_initialized():
        outcomes = [(None, None)] * dist.get_world_size()
        dist.all_gather_object(outcomes, (result, error))
    errors = [text for _, text in outcomes if text is not None]
    if errors:
        raise CheckpointError(errors[0])
    return [value for value, _ in outcomes]


def _reason(error: OSError | RuntimeError | CheckpointException) -> str:
    """One line: what the system said, whatever torch wrapped it in."""
    if isinstance(error, CheckpointException):
        failure = next(iter(error.failures.values()))[0]
        return _reason(failure) if isinstance(failure, (OSError, RuntimeError)) else f"{failure!r}"
    cause = error.__context__ if isinstance(error, RuntimeError) else None
    if isinstance(cause, OSError):  # torch's writer notices later what the file has said before
        return _reason(cause)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())[:300]
