"""The beginning and the end of a sweep for the person who typed it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from spt.config.errors import ConfigError
from spt.sweep.plan import read_plan
from spt.sweep.record import read_record
from spt.sweep.rows import key_metrics, read_rows
from spt.sweep.summary import write_sweep_summary
from spt.sweep.table import headline, text

logger = logging.getLogger(__name__)


def refuse_used_folder(sweep: Path) -> None:
    """Refuses a folder in which another sweep is running: both would run the same jobs, into the same files.

    Raises:
        ConfigError: a job there is running.
    """
    for job in read_plan(sweep).jobs:
        record = None if job.folder is None else read_record(sweep / job.folder)
        if record is not None and record.is_alive:
            raise ConfigError(
                f"hydra.sweep.dir={sweep} is in use: process {record.process} runs its job {job.folder}.\n"
                "    try: the same command once that sweep has ended, or another folder"
            )


@contextmanager
def plain_refusal() -> Iterator[None]:
    """Within it a ConfigError ends the process with its text and status 2."""
    try:
        yield
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None


def end(sweep: Path) -> None:
    """Brings the summary up to date and shows the table."""
    rows = write_sweep_summary(sweep)
    table = text(rows, key_metrics(read_plan(sweep), rows))
    logger.info("\n%s\n\n%s\n\n%s/summary.md", headline(rows), table, sweep)


class ExitStatus(Callback):
    """Ends `python train.py -m` with status 1 when a job that could work did not complete. One of hydra.callbacks."""

    def on_multirun_end(self, config: DictConfig, **kwargs: object) -> None:
        """Called by Hydra when the sweeper is done.

        Raises:
            SystemExit: status 1.
        """
        sweep = Path(str(config.hydra.sweep.dir)).absolute()
        plan = read_plan(sweep)
        rows = [row for row, job in zip(read_rows(sweep, plan), plan.jobs, strict=True) if job.is_asked_for]
        if any(row.status not in ("completed", "refused") for row in rows):
            raise SystemExit(1)
