"""One job of a sweep as a process of its own: handed a config, started, watched, written down."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from omegaconf import DictConfig

from spt.config.errors import JobError
from spt.config.handover import job_overrides, run_folder, sweep_folder, write_config
from spt.config.machine import TASK_VARIABLES, slurm_tasks
from spt.config.sweep import read_settings
from spt.launch.process import STOP_SIGNALS, restored_handlers
from spt.reporting.atomic import write_text
from spt.sweep.process import CONFIG
from spt.sweep.record import (
    REASON,
    JobRecord,
    ended,
    is_completed,
    read_run_summary,
    started,
    write_record,
)
from spt.sweep.slots import Slot
from spt.sweep.summary import write_sweep_summary

logger = logging.getLogger(__name__)
_PACE = 0.1
"""Seconds between two looks at a process."""


def hand_over(cfg: DictConfig) -> Path:
    """Leaves the config of the job that HydraConfig describes for its process, and gives the job's folder."""
    folder = Path(run_folder())
    write_text(folder / CONFIG, write_config(cfg))
    return folder


class JobProcess:
    """The process of a job, from start to record.

    Args:
        folder: of the job, with its config handed over.
        sweep: folder of the sweep.
        overrides: of the job.
        slot: devices that it may use.
        console: file for what it writes to the screen; None for the screen.
    """

    def __init__(self, folder: Path, sweep: Path, overrides: list[str], slot: Slot, console: Path | None) -> None:
        self.folder, self.sweep = folder, sweep
        for stale in (REASON, "summary.json"):  # of an earlier start: not how this one will have ended
            (folder / stale).unlink(missing_ok=True)
        self.started_at = time.monotonic()
        self.was_told = False
        cores = ",".join(map(str, slot.cores))
        command = [sys.executable, "-m", "spt.sweep.process", str(folder), str(os.getpid()), cores]
        output = None if console is None else console.open("ab")
        # a session of its own: Ctrl-C reaches the sweep alone, which tells its jobs once
        self.process = subprocess.Popen(
            command, env=_environment(slot), stdout=output, stderr=output, start_new_session=True
        )
        if output is not None:
            output.close()
        self.record = started(folder, overrides, self.process.pid)
        write_record(folder, self.record)

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self.process.poll() is not None

    def stop(self) -> None:
        """Asks it to end in order; asked again, ends it."""
        if not self.has_ended():
            self.process.send_signal(signal.SIGKILL if self.was_told else signal.SIGTERM)
        self.was_told = True

    def finish(self) -> JobRecord:
        """The record of the process once it has ended, written down, and the sweep's summary brought up to date."""
        if self.record.status != "running":
            return self.record
        code = self.process.wait()
        seconds = time.monotonic() - self.started_at
        self.record = ended(self.record, self.folder, code, seconds=seconds, was_told=self.was_told)
        write_record(self.folder, self.record)
        write_sweep_summary(self.sweep)
        return self.record


def run_job(cfg: DictConfig) -> float | None:
    """Runs the job that HydraConfig describes in a process of its own, and waits for it. Under any launcher of Hydra.

    Returns:
        The objective, as its run measured it last; None when there is none. A job that is complete already is not run.

    Raises:
        JobError: it did not complete; says why in one line.
        SystemExit: this process was told to stop, and the job with it.
    """
    overrides = job_overrides()
    folder = Path(run_folder())
    if not is_completed(folder, overrides):
        hand_over(cfg)
        with stop_signals_raise():
            record = _watched(JobProcess(folder, Path(sweep_folder()), overrides, Slot((), ()), None))
        if record.status != "completed":
            raise JobError(f"{record.status}: {record.reason}")
    return read_objective(folder, read_settings(cfg).objective)


def _watched(job: JobProcess) -> JobRecord:
    try:
        while not job.has_ended():
            time.sleep(_PACE)
    finally:
        if not job.has_ended():
            job.stop()
        record = job.finish()
    return record


@contextmanager
def stop_signals_raise() -> Iterator[None]:
    """Within it signals to stop end this process by a SystemExit of 128 + signal: what was started is ended first.

    A launcher's own answer to a signal, such as submitit's, stays.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may have handlers; a launcher with threads has its own
        return
    with restored_handlers():
        for number in STOP_SIGNALS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, end)
        yield


def read_objective(folder: Path, objective: str | None) -> float | None:
    """The value of the objective that the run of a job measured last; None when it has none."""
    metrics = read_run_summary(folder).get("metrics")
    value = metrics.get(objective) if isinstance(metrics, dict) else None
    return float(value) if isinstance(value, (int, float)) else None


def python_path() -> str:
    """A value of PYTHONPATH by which processes find what this one has found, and this package, installed or not."""
    paths = [os.path.abspath(sys.path[0]), str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(path for path in paths if path)


def _environment(slot: Slot) -> Mapping[str, str]:
    """Variables of the process: those of this one, less what a launcher has told this one alone."""
    own = dict(os.environ)
    if slurm_tasks() == 1:  # the one task of the step starts the processes of the run itself
        own = {name: value for name, value in own.items() if name not in TASK_VARIABLES}
    own["PYTHONPATH"] = python_path()
    if slot.gpus:
        own["CUDA_VISIBLE_DEVICES"] = ",".join(slot.gpus)
    return own
