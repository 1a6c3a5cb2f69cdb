"""The error for a data set that is not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spt.config.errors import ConfigError


def missing(name: str, *, files: str, places: list[Path], how: str) -> ConfigError:
    """Says which files of a data set are missing, where they were looked for, and how to get them.

    Args:
        name: of the data set.
        files: which of them, in words.
        places: folders.
        how: what to type or do.
    """
    looked = " or ".join(str(place.expanduser().resolve()) for place in places)
    return ConfigError(f"{name} is not there: no {files} in {looked}. {how}")


def download(name: str, fetch: Callable[[], object], root: Path, how: str) -> None:
    """Downloads a data set.

    Args:
        name: of the data set.
        fetch: does it.
        root: folder that it goes into.
        how: what to do without a network.

    Raises:
        ConfigError: no network, no room, or a broken archive.
    """
    try:
        fetch()
    except (OSError, RuntimeError) as error:  # of urllib and of torchvision's checksums
        raise ConfigError(f"{name} cannot be downloaded to {root.expanduser().resolve()}: {error}. {how}") from error
