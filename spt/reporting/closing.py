"""The end of a run of Weights & Biases. Imports nothing heavy: a process that is about to be ended calls it."""

from __future__ import annotations

import sys


def finish(exit_code: int) -> None:
    """Closes the run, if there is one: an offline file is incomplete until then, and Lightning never does it.

    Args:
        exit_code: of the process: 0 marks the run as finished, 128 + a signal's number as preempted, anything else as
            failed.
    """
    # a run that never imported it has nothing to close, and importing it takes a second
    wandb = sys.modules.get("wandb")
    if wandb is None or wandb.run is None:
        return
    if exit_code > 128:
        wandb.run.mark_preempting()  # a sweep's agent starts such a run again
    wandb.finish(exit_code=exit_code)
    wandb.teardown()  # waits for wandb's own process: finish returns before the last bytes are in the file
