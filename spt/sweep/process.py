"""The fresh process of one job of a sweep: python -m spt.sweep.process FOLDER PARENT [CORE,CORE...]."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

import spt
from spt.checkpoint.folder import newest
from spt.checkpoint.resume import AUTO, CHECKPOINTS
from spt.config.command_line import plain_errors
from spt.config.handover import read_config, start_log
from spt.launch.process import end_with_parent
from spt.reporting.atomic import write_text
from spt.sweep.record import REASON

CONFIG = Path(".hydra", "job.yaml")
"""Below the job's folder: the config as it was composed, every reference resolved."""


def main(folder: Path, parent: int, cores: str) -> None:
    """Runs the config that the sweep has left in the job's folder.

    Args:
        folder: of the job.
        parent: process id of the sweep; this process ends with it.
        cores: numbers of the processor cores to run on, commas between; empty for all.
    """
    # SLURM gives its warning to every process of a job; the sweep's own process answers it
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    end_with_parent(parent)
    if cores and sys.platform == "linux":
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    cfg = going_on(read_config((folder / CONFIG).read_text(encoding="utf-8")), folder)
    start_log(is_rank_zero=True)
    with plain_errors():
        try:
            spt.train(cfg)
        except Exception as error:
            write_text(folder / REASON, " ".join(f"{type(error).__name__}: {error}".split()))
            raise


def going_on(cfg: DictConfig, folder: Path) -> DictConfig:
    """The config of a job, which goes on where an earlier start has left it; else as it is."""
    if newest(folder / CHECKPOINTS) is None:
        return cfg
    merged = OmegaConf.merge(cfg, {"resume": AUTO})
    assert isinstance(merged, DictConfig)
    return merged


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
