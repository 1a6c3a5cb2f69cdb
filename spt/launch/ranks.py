"""Starts the processes of a run on several devices together, waits for them, and says how they ended."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from spt.config.errors import ConfigError, RankError
from spt.config.handover import run_folder, write_config
from spt.config.machine import count_cores
from spt.launch.ending import write_ending
from spt.launch.failures import CONFIG, FOLDER, PROCESS, STOPPING, VALUE, Failure, first_failure
from spt.launch.process import listening, restored_handlers
from spt.launch.task import PRETRAINING
from spt.reporting.summary import Status

if TYPE_CHECKING:
    from omegaconf import DictConfig

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
"""Signals to this process that are meant for the ranks; they end in their own time."""

_STOPPED = {code for number in _FORWARDED for code in (128 + number, -number)}  # exit codes of ranks told to stop


def launch(cfg: DictConfig, *, num_ranks: int, task: str = PRETRAINING) -> float | None:
    """Performs a task with a config on `num_ranks` processes of this machine. Call it in the main thread.

    The ranks read the config that was composed and checked here, with its run folder. When one fails, the others are
    ended; so are all of them when this process is.

    Returns:
        What rank 0 returned.

    Raises:
        ConfigError: a rank found the experiment unworkable.
        RankError: a rank failed; the text is the traceback of the first that did.
        SystemExit: 128 + signal after Ctrl-C or another signal to stop.
    """
    folder = Path(run_folder())
    folder.mkdir(parents=True, exist_ok=True)
    if task == PRETRAINING:
        (folder / "summary.json").unlink(missing_ok=True)  # of an earlier run in this folder: not how this one ended
    ending = _Ending(cfg, folder, num_ranks, task, time.monotonic())
    with tempfile.TemporaryDirectory(prefix="spt-", ignore_cleanup_errors=True) as name:
        notes = Path(name)
        (notes / CONFIG).write_text(write_config(cfg), encoding="utf-8")
        heard: list[int] = []
        try:
            _run_ranks(notes, num_ranks, task, heard)
        except SignalException as end:
            ending.preempted(int(end.sigval))
        except ChildFailedError as error:
            codes = {rank: failed.exitcode for rank, failed in error.failures.items()}
            if set(codes.values()) <= _STOPPED and not any(notes.glob("failure-*.json")):
                # or a rank was told, and told the rest
                ending.preempted(next(iter(heard), signal.SIGTERM))
            ending.failed(first_failure(notes, codes))
        value = json.loads((notes / VALUE).read_text())
    return None if value is None else float(value)


def _run_ranks(notes: Path, num_ranks: int, task: str, heard: list[int]) -> None:
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_ranks,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
        local_addr="localhost",  # one machine; its full name may not resolve
        max_restarts=0,
        monitor_interval=0.1,  # seconds
        signals_to_handle="SIGQUIT",  # at the others it would kill ranks that are still saving half a minute later
        logs_specs=DefaultLogsSpecs(
            log_dir=str(notes / "output"), redirects=dict.fromkeys(range(1, num_ranks), Std.ALL)
        ),
    )

    def stop(number: int) -> None:
        """Tells the ranks why they are asked to end: by the user, and not because another rank has failed."""
        (notes / STOPPING).touch()

    def forward(number: int, frame: FrameType | None) -> None:
        """Asks them to end."""
        stop(number)
        heard.append(number)
        for file in notes.glob(f"{PROCESS}-*"):
            with suppress(ProcessLookupError):  # it has ended
                os.kill(int(file.read_text()), number)

    arguments = ["-m", "spt.launch.rank", str(notes), str(os.getpid()), task]
    with _environment(notes, num_ranks), restored_handlers(), _without_elastic_log(), listening(stop):
        for number in _FORWARDED:
            signal.signal(number, forward)
        elastic_launch(config, sys.executable)(*arguments)


@contextmanager
def _environment(notes: Path, num_ranks: int) -> Iterator[None]:
    """Variables of the ranks; this process's own are as before at the end."""
    before = dict(os.environ)
    paths = [os.path.abspath(sys.path[0]), str(Path(__file__).resolve().parents[2]), before.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ[FOLDER] = str(notes)
    # else every rank starts a thread for every core
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, count_cores() // num_ranks)))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _without_elastic_log() -> Iterator[None]:
    """Silences the launcher, which tells what this file tells in fewer words."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class _Ending(NamedTuple):
    """How a run that did not complete is told of: by summary.json, where it is a pretraining, and by an error."""

    cfg: DictConfig
    folder: Path
    num_ranks: int
    task: str
    started_at: float

    def preempted(self, number: int) -> NoReturn:
        """It was told to stop by a signal of that number."""
        self._write("preempted", None)
        raise SystemExit(128 + number)

    def failed(self, failure: Failure) -> NoReturn:
        """A rank failed."""
        self._write("failed", failure.error)
        if failure.is_mistake:
            raise ConfigError(failure.text) from None
        raise RankError(
            f"Rank {failure.rank} of {self.num_ranks} failed, and the run with it.\n{failure.text}"
        ) from None

    def _write(self, status: Status, error: str | None) -> None:
        if self.task == PRETRAINING:
            seconds = time.monotonic() - self.started_at
            write_ending(self.cfg, self.folder, status, error, world_size=self.num_ranks, seconds=seconds)
