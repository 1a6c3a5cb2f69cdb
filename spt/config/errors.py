"""The one error for a user's mistake."""

from __future__ import annotations


class ConfigError(ValueError):
    """What was given cannot work: says what, why, and what to type instead. Shown without a traceback."""
