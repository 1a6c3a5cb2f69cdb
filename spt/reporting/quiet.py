"""Lines that libraries write and that a user cannot act on."""

from __future__ import annotations

import logging
import warnings

# message (a regular expression that the warning's text starts with), category, and why nobody needs to read it
_WARNINGS: tuple[tuple[str, type[Warning], str], ...] = (
    (
        r"The '\w+' does not have many workers",
        UserWarning,
        "data.num_workers is chosen on purpose, and train/data_wait says whether more would help",
    ),
    (
        r"The number of training batches \(\d+\) is smaller than the logging interval",
        UserWarning,
        "steps are counted over epochs, so rows are written all the same",
    ),
    (
        r"Found \d+ module\(s\) in eval mode at the start of training",
        UserWarning,
        "a teacher may be in eval mode by design",
    ),
    (
        r"You're resuming from a checkpoint that ended before the epoch ended and your dataloader is not resumable",
        UserWarning,
        "the sampler finds its place from the step",
    ),
    (
        r"`isinstance\(treespec, LeafSpec\)` is deprecated",
        FutureWarning,
        "between Lightning and torch",
    ),
    (
        r".*'pin_memory' argument is set as true but no accelerator is found",
        UserWarning,
        "pinning is a wish: without an accelerator there is nothing to pin for",
    ),
    (
        r"The .grad attribute of a Tensor that is not a leaf Tensor is being accessed",
        UserWarning,
        "torch.compile looks at every input of a block",
    ),
)


def quiet() -> None:
    """Leaves to libraries the warnings that a user can act on, each once and through the run's own log.

    Call it after the log is set up and after Lightning is imported, which brings handlers of its own.
    """
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        library = logging.getLogger(name)
        # with handlers of its own every line comes twice on the screen; without propagation none reaches train.log
        library.handlers.clear()
        library.propagate = True
        # below warning: adverts for other products, and the hardware and stop reasons that the run's own lines tell
        library.setLevel(logging.WARNING)
    for message, category, _ in _WARNINGS:
        warnings.filterwarnings("ignore", message=message, category=category)
