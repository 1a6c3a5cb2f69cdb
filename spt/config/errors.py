"""The one error for a user's mistake."""

from __future__ import annotations


class ConfigError(ValueError):
    """What was given cannot work: says what, why, and what to type instead. Shown without a traceback.

    Args:
        text: the message. When a data worker raised the error, torch raises another one of the same class in the
            training process with the worker's traceback as its text; only the message at its end is kept.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text.rpartition(f"{ConfigError.__module__}.{ConfigError.__name__}: ")[2].rstrip())


class CheckpointError(ConfigError):
    """A checkpoint cannot be read, written or used: says which file, why, and what to do."""


class ForeignCheckpointError(CheckpointError):
    """A checkpoint is whole, and in a layout that only the library that wrote it reads."""


class RankError(RuntimeError):
    """A process of a run on several devices failed. The text is that process's traceback; there is none to add."""


class JobError(RuntimeError):
    """A job of a sweep did not complete. The text is the reason in one line; its own process has shown the rest."""
