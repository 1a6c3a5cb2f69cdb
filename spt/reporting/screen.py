"""Text for a person or for the next command of a pipe."""

from __future__ import annotations

import os
import sys


def show(text: str) -> None:
    """Writes text and an end of line; a reader that has had enough, such as `head`, ends it without a traceback."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # what is left in the buffer would raise again when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
