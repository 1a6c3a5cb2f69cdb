"""Folders of runs and sweeps as train.py leaves them, written by hand so that they take no time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from PIL import Image

from spt.reporting.summary import Status, Summary, write_summary

NOW = 1_800_000_000.0
EVIL = "</script><script>window.harm = 1</script><img src=x onerror='window.harm = 2'>\"&amp;"
"""What must be shown and must not run."""


def make_run(
    folder: Path,
    *overrides: str,
    accuracies: Sequence[float] = (0.25, 0.5, 0.75),
    config: Mapping[str, object] | None = None,
    status: Status | None = "completed",
    error: str | None = None,
) -> Path:
    """A run with an accuracy after each epoch of ten steps, from that of the untrained network on.

    Args:
        folder: to make.
        overrides: what was typed.
        accuracies: k-NN top-1.
        config: nested.
        status: how it ended; None for a run that did not say so.
        error: one line, for failed runs.
    """
    rows = ["step,train/loss,train/lr,val/knn_top1,epoch"]
    for epoch, accuracy in enumerate(accuracies):
        if epoch:
            rows.append(f"{10 * epoch - 5},{8 / epoch:g},{0.001 * epoch:g},,{epoch - 1}")
        rows.append(f"{10 * epoch},,,{accuracy:g},{max(0, epoch - 1)}")
    hydra = {
        "overrides": {"hydra": [f"hydra.run.dir={folder}", "hydra.mode=RUN"], "task": list(overrides)},
        "runtime": {"output_dir": str(folder), "choices": {"method": "simclr", "backbone": "vit_micro"}},
    }
    write(folder / ".hydra" / "hydra.yaml", yaml.safe_dump({"hydra": hydra}))
    write(folder / ".hydra" / "overrides.yaml", yaml.safe_dump(list(overrides)))
    given = config or {"seed": 1, "trainer": {"max_epochs": 4}, "optimizer": {"lr": 0.001}}
    own = {"callbacks": {"pictures": {"folder": f"{folder}/plots"}}}
    write(folder / "config_resolved.yaml", yaml.safe_dump({**given, **own}, sort_keys=False))
    write(folder / "metrics.csv", "\n".join(rows) + "\n")
    write(folder / "train.log", "2026-12-01 01:43:11,241 INFO method simclr\n2026-12-01 01:43:31,495 INFO epoch 1/4\n")
    write(folder / ".lock", "")
    if status is not None:
        write_summary(folder, make_summary(status, accuracies, error))
    return folder


def make_summary(status: Status, accuracies: Sequence[float], error: str | None) -> Summary:
    """What a run with these accuracies says of itself."""
    return Summary(
        status=status, method="simclr", backbone="vit_micro", data="digits", strategy="single", precision="32-true",
        world_size=1, global_batch_size=128, epochs=len(accuracies) - 1, steps=10 * (len(accuracies) - 1), seconds=61.0,
        images_per_second=100.0, metrics_at_start={"val/knn_top1": accuracies[0]},
        metrics={"val/knn_top1": accuracies[-1]}, error=error,
    )  # fmt: skip


def make_picture(folder: Path, name: str, size: tuple[int, int] = (64, 48)) -> Path:
    """A picture in a run's plots."""
    path = folder / "plots" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (200, 40, 90)).save(path)
    return path


def make_sweep(folder: Path) -> Path:
    """A sweep of two learning rates with two seeds each, of a job that failed, one that was killed and one refused."""
    jobs: list[dict[str, object]] = []
    accuracies = {"0": (0.25, 0.5, 0.75), "1": (0.25, 0.5, 0.85), "2": (0.25, 0.25, 0.5), "3": (0.25, 0.25, 0.7)}
    for name, values in accuracies.items():
        lr, seed = (0.1 if name in "01" else 0.2), 1 + int(name) % 2
        words = [f"optimizer.lr={lr}", f"seed={seed}"]
        config = {"seed": seed, "trainer": {"max_epochs": 2}, "optimizer": {"lr": lr, "same": 3}}
        make_run(folder / name, *words, accuracies=values, config=config)
        add_job(folder, jobs, name, words, status="completed", seconds=60.0 + int(name))
    failed = ["optimizer.lr=0.3", "seed=1"]
    make_run(folder / "4", *failed, accuracies=(0.25,), status="failed", error="NonFiniteLossError: the loss is nan")
    add_job(folder, jobs, "4", failed, status="failed", reason="NonFiniteLossError: the loss is nan")
    killed = ["optimizer.lr=0.3", "seed=2"]
    make_run(folder / "5", *killed, accuracies=(0.25, 0.5), status=None)
    add_job(folder, jobs, "5", killed, status="running")  # and then the sweep was killed too
    refusal = "lr-positive: optimizer.lr=-1 is no learning rate.\n    try: optimizer.lr=0.1"
    jobs.append({"overrides": ["optimizer.lr=-1", "seed=1"], "folder": None, "refusal": refusal, "is_asked_for": True})
    write(folder / "jobs.json", json.dumps({"metrics": ["val/knn_top1"], "jobs": jobs}))
    task = ["optimizer.lr=0.1,0.2,0.3,-1", "seed=1,2"]
    typed = {"hydra": ["hydra.mode=MULTIRUN", f"hydra.sweep.dir={folder}"], "task": task}
    write(folder / "multirun.yaml", yaml.safe_dump({"hydra": {"overrides": typed}}))
    return folder


def add_job(
    sweep: Path, jobs: list[dict[str, object]], name: str, words: list[str], *, status: str, reason: str | None = None,
    seconds: float = 5.0, host: str = "node", process: int = 1,
) -> None:  # fmt: skip
    """Adds a job to a plan, with its record."""
    jobs.append({"overrides": words, "folder": name, "refusal": None, "is_asked_for": True})
    record = {"overrides": words, "status": status, "reason": reason, "seconds": seconds, "starts": 1}
    write(sweep / name / "job.json", json.dumps({**record, "host": host, "process": process}))


def write(path: Path, text: str) -> None:
    """Writes a text into a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
