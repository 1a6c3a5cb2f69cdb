"""What a search may choose: ranges in the words of Hydra's command line, as Optuna's distributions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep

from spt.config.errors import ConfigError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


@dataclass(frozen=True)
class Space:
    """What varies between trials, and what does not.

    Attributes:
        distributions: by key.
        fixed: words that every trial has.
    """

    distributions: dict[str, BaseDistribution]
    fixed: list[str]

    def words(self, values: Mapping[str, object]) -> list[str]:
        """The overrides of a trial with these values."""
        return [*self.fixed, *(f"{key}={value}" for key, value in values.items())]


def read_space(overrides: Iterable[Override]) -> Space:
    """The space that overrides describe; of several with one key, the last counts.

    Raises:
        ConfigError: nothing varies, or a range that is no range.
    """
    last = {override.get_key_element(): override for override in overrides}
    swept = {key: override for key, override in last.items() if override.is_sweep_override()}
    fixed = [override.input_line or "" for key, override in last.items() if key not in swept]
    if not swept:
        raise ConfigError(
            "hydra/sweeper=optuna has nothing to search: every key has one value.\n"
            "    try: 'optimizer.lr=tag(log,interval(1e-4,1e-2))'"
        )
    return Space({key: _distribution(override) for key, override in swept.items()}, fixed)


def _distribution(override: Override) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    value = override.value()
    is_log = isinstance(value, (ChoiceSweep, IntervalSweep, RangeSweep)) and "log" in value.tags
    if isinstance(value, IntervalSweep) and value.start is not None and value.end is not None:
        _check(override, value.start, value.end, is_log=is_log)
        if isinstance(value.start, int) and isinstance(value.end, int):
            return IntDistribution(value.start, value.end, log=is_log)
        return FloatDistribution(value.start, value.end, log=is_log)
    return CategoricalDistribution(list(override.sweep_string_iterator()))


def _check(override: Override, start: float, end: float, *, is_log: bool) -> None:
    if start >= end:
        raise ConfigError(f"{override.input_line}: the first end is below the second.")
    if is_log and start <= 0:
        raise ConfigError(
            f"{override.input_line}: there is no logarithm of {start}.\n"
            f"    try: {override.key_or_group}=interval({start},{end})"
        )
