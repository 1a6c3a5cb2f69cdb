"""Jobs of a sweep in a SLURM queue, by submitit: each one task, which starts the processes of its run itself."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from spt.config.machine import resolve_devices
from spt.reporting.atomic import write_text
from spt.sweep.job import JobProcess, python_path, stop_signals_raise
from spt.sweep.preparation import Prepared, Sweep
from spt.sweep.record import JobRecord, is_completed, read_record, write_record
from spt.sweep.slots import Slot
from spt.sweep.summary import write_sweep_summary

if TYPE_CHECKING:
    from submitit import Job
    from submitit.helpers import DelayedSubmission

logger = logging.getLogger(__name__)
QUEUED = ".queued.json"
"""Note in a job's folder: where it stands in the queue, for a later command on the same sweep."""

_PACE = 1.0
"""Seconds between two looks at the queue."""


class Submission:
    """What SLURM runs for a job: its process, watched. Requeued, it goes on from the newest checkpoint.

    Args:
        folder: of the job, with its config in it.
        sweep: folder of the sweep.
        words: overrides of the job.
    """

    def __init__(self, folder: Path, sweep: Path, words: list[str]) -> None:
        self.folder, self.sweep, self.words = folder, sweep, words
        self.process: JobProcess | None = None

    def __call__(self) -> str:
        """Runs the job unless it is complete, and gives how it ended."""
        if is_completed(self.folder, self.words):
            return "completed"
        self.process = JobProcess(self.folder, self.sweep, self.words, Slot((), ()), None)
        try:
            while not self.process.has_ended():
                time.sleep(_PACE)
        finally:
            record = self._end(self.process)
        return record.status

    def checkpoint(self) -> DelayedSubmission:
        """Called by submitit before a requeue, at a preemption or shortly before the time limit."""
        from submitit.helpers import DelayedSubmission

        if self.process is not None:
            self._end(self.process)  # it saves
        return DelayedSubmission(Submission(self.folder, self.sweep, self.words))

    def _end(self, process: JobProcess) -> JobRecord:
        if not process.has_ended():
            process.stop()
        return process.finish()


class SlurmLauncher(Launcher):
    """Hydra's launcher that is chosen by hydra/launcher=slurm.

    Told to stop, this process leaves the queue alone; the same command again waits for what is queued and running.

    Args:
        cluster: slurm | local; local runs the jobs on this machine, all at once, to try things out.
        partition, account, qos, constraint: of SLURM; None for its defaults.
        timeout_min: minutes until a job is requeued.
        max_num_timeout: requeues of a job for its time limit; those for a preemption are not counted.
        signal_delay_s: seconds before the limit at which a job is told to save.
        gpus_per_node: None for trainer.devices, or none where trainer.accelerator is cpu.
        cpus_per_task: cores; None for SLURM's default.
        mem_gb: of memory; None for SLURM's default.
        array_parallelism: jobs that run at a time.
        setup: lines of shell before the job.
        additional_parameters: further options of sbatch by name.
    """

    def __init__(
        self,
        cluster: str,
        partition: str | None,
        account: str | None,
        qos: str | None,
        constraint: str | None,
        timeout_min: float,
        max_num_timeout: int,
        signal_delay_s: int,
        gpus_per_node: int | None,
        cpus_per_task: int | None,
        mem_gb: float | None,
        array_parallelism: int,
        setup: list[str],
        additional_parameters: dict[str, str | int],
    ) -> None:
        self.cluster, self.max_num_timeout, self.gpus_per_node = cluster, max_num_timeout, gpus_per_node
        given: dict[str, object] = {
            "timeout_min": timeout_min, "cpus_per_task": cpus_per_task, "mem_gb": mem_gb, "nodes": 1,
            "tasks_per_node": 1, "slurm_partition": partition, "slurm_account": account, "slurm_qos": qos,
            "slurm_constraint": constraint, "slurm_signal_delay_s": signal_delay_s, "slurm_setup": list(setup) or None,
            "slurm_array_parallelism": array_parallelism,
            "slurm_additional_parameters": dict(additional_parameters) or None,
        }  # fmt: skip
        self.parameters = {name: value for name, value in given.items() if value is not None}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra with the config of the sweep as a whole."""
        self.sweep = Sweep(hydra_context, task_function, config)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Queues the jobs that are not queued yet, waits for all, and gives what came of each, in order.

        Raises:
            SystemExit: this process was told to stop.
        """
        jobs = [self.sweep.prepare(*job) for job in self.sweep.begin(job_overrides, initial_job_idx)]
        returns: dict[int, JobReturn] = {}
        with stop_signals_raise():
            waiting = self._queued(jobs)
            try:
                while waiting:
                    time.sleep(_PACE)
                    for job, entry in [(job, entry) for job, entry in waiting if entry.done()]:
                        waiting.remove((job, entry))
                        returns[job.number] = self.sweep.tell_end(job, self._ended(job, entry))
            finally:
                self._leave(waiting)
        return [returns[number] for number in sorted(returns)]

    def _queued(self, jobs: Sequence[Prepared]) -> list[tuple[Prepared, Job[str]]]:
        """Every job with its place in the queue; jobs that need as many GPUs are one array."""
        attached = {job.number: entry for job in jobs if (entry := self._attached(job)) is not None}
        arrays: dict[int, list[Prepared]] = {}
        for job in jobs:
            if job.number not in attached:
                arrays.setdefault(self._gpus(job.config), []).append(job)
        for gpus, members in arrays.items():
            for job, entry in zip(members, self._submitted(members, gpus), strict=True):
                attached[job.number] = entry
                note = {"cluster": self.cluster, "id": entry.job_id, "folder": str(self._notes())}
                write_text(job.folder / QUEUED, json.dumps(note))
        for job in jobs:
            self.sweep.tell_start(job)
        ids = " ".join(entry.job_id for entry in attached.values())
        logger.info(
            "in the queue of %s: %s; what they write is in %s", self.cluster, ids, self.sweep.folder / ".submitit"
        )
        return [(job, attached[job.number]) for job in jobs]

    def _submitted(self, members: Sequence[Prepared], gpus: int) -> list[Job[str]]:
        import submitit

        limit = {f"{self.cluster}_max_num_timeout": self.max_num_timeout}
        executor = submitit.AutoExecutor(folder=self._notes(), cluster=self.cluster, **limit)
        executor.update_parameters(name=self.sweep.folder.name, gpus_per_node=gpus, **self.parameters)
        with _importable():
            return executor.submit_array([Submission(job.folder, self.sweep.folder, job.words) for job in members])

    def _attached(self, job: Prepared) -> Job[str] | None:
        """The place in the queue that an earlier command has left a job, if it is still queued or running there."""
        note = job.folder / QUEUED
        if self.cluster != "slurm" or not note.is_file():
            return None  # a local queue ends with its command
        from submitit import SlurmJob

        content = json.loads(note.read_text(encoding="utf-8"))
        entry: Job[str] = SlurmJob(folder=content["folder"], job_id=content["id"])
        return None if entry.done(force_check=True) else entry

    def _ended(self, job: Prepared, entry: Job[str]) -> JobRecord:
        """The record of a job that has left the queue; SLURM may have ended it without asking."""
        (job.folder / QUEUED).unlink(missing_ok=True)
        record = read_record(job.folder) or JobRecord(job.words, "running")
        if record.status in ("running", "waiting"):
            record = replace(
                record, status="killed", reason=f"left the queue as {entry.state}; see {entry.paths.stderr}"
            )
            write_record(job.folder, record)
        write_sweep_summary(self.sweep.folder)
        return record

    def _leave(self, waiting: Sequence[tuple[Prepared, Job[str]]]) -> None:
        if not waiting:
            return
        ids = " ".join(entry.job_id for _, entry in waiting)
        if self.cluster == "slurm":
            logger.info("jobs stay in the queue; the same command again waits for them; to end them: scancel %s", ids)
            return
        for _, entry in waiting:
            entry.cancel()

    def _gpus(self, config: DictConfig) -> int:
        if self.gpus_per_node is not None or config.trainer.accelerator == "cpu":
            return self.gpus_per_node or 0
        devices = config.trainer.devices  # a number: anything else was refused
        return resolve_devices(devices if isinstance(devices, (int, str)) else list(devices), "gpu") or 0

    def _notes(self) -> Path:
        return self.sweep.folder / ".submitit" / "%j"


@contextmanager
def _importable() -> Iterator[None]:
    """Within it processes that are queued find this package, installed or not."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = python_path()
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
