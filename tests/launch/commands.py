"""train.py as it is typed, on two CPU processes and networks as small as they can be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "method=simclr", "data=fake", "data.image_size=16", "data.num_images=26", "data.source.num_val_images=14",
    "data.bank_size=10", "data.global_batch_size=8", "data.evaluation_batch_size=9", "backbone=vit_micro",
    "backbone.embed_dim=16", "backbone.depth=1", "optimizer.lr_schedule.warmup_epochs=0", "trainer.accelerator=cpu",
    "trainer.log_every_n_steps=1", "method.head.hidden_dim=12", "method.head.output_dim=6", "~callbacks.pictures",
    "probes=none", "strategy=ddp",
)  # fmt: skip
LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_NTASKS", "SLURM_PROCID")


def environment(**variables: str) -> dict[str, str]:
    """Of a command that no launcher started, one thread a process."""
    own = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    return {**own, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **variables}


def fault(folder: Path, *, rank: int, step: int, kind: str) -> tuple[str, ...]:
    """Words that add a callback which fails, from a file in `folder`; see tests/launch/faults.py."""
    file = folder / "more" / "callbacks" / "faulty.yaml"
    file.parent.mkdir(parents=True)
    node = f"{{_target_: tests.launch.faults.Fault, rank: {rank}, step: {step}, kind: {kind}}}"
    file.write_text(f"defaults: [default, _self_]\nfault: {node}\n")
    return "--config-dir", str(folder / "more"), "callbacks=faulty"


def start(
    folder: Path, *words: str, launcher: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """A run that is under way, its console in one pipe; `folder` is its working directory. Flags come first."""
    given = {word.partition("=")[0] for word in words}
    small = [word for word in SMALL if word.partition("=")[0] not in given]
    return start_plain(folder, *words, *small, launcher=launcher, variables=variables)


def start_plain(
    folder: Path, *words: str, launcher: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """The same with these words alone."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *launcher, str(ROOT / "train.py"), *words]
    own = environment(**(variables or {}))
    return subprocess.Popen(
        command, cwd=folder, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )  # fmt: skip


def wait_for_steps(folder: Path, process: subprocess.Popen[str], *, steps: int) -> None:
    """Returns once `steps` optimizer steps are written down."""
    file = folder / "metrics.csv"
    while process.poll() is None and (not file.is_file() or len(file.read_text().splitlines()) <= steps):
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()[0]


def ranks_of(parent: int) -> list[int]:
    """Process ids of the ranks that a parent has started and that are alive."""
    alive = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has just ended
        if b"spt.launch.rank" in words and str(parent).encode() in words and state != "Z":
            alive.append(int(entry.name))
    return sorted(alive)


def summary(folder: Path) -> dict[str, object]:
    """What summary.json says."""
    content = json.loads((folder / "summary.json").read_text())
    assert isinstance(content, dict)
    return content
