"""A run folder is one run's: taken for its time, and tidied before it begins."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from spt.checkpoint.folder import clean
from spt.checkpoint.resume import CHECKPOINTS
from spt.config.errors import ConfigError

logger = logging.getLogger(__name__)


@contextmanager
def taken(folder: Path) -> Iterator[None]:
    """Holds the folder for this process, or says that another one has it; the kernel lets go when the process ends.

    What a killed run left unfinished in it is removed.

    Raises:
        ConfigError: another run is writing there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise ConfigError(
            f"Another run is writing to {folder}: two runs in one folder would spoil each other.\n"
            "    try: another hydra.run.dir, or wait for its end"
        ) from None
    try:
        removed = clean(folder / CHECKPOINTS)
        if removed:
            logger.info("Removed what a killed run left unfinished: %s", ", ".join(removed))
        yield
    finally:
        lock.release()
