"""One contestant of bench_accuracy.py, in the environment of its own library: trains once, and embeds.

    python scripts/accuracy_worker.py ours FOLDER CORE

FOLDER/task.json says what to do; all numbers in it are of one composed config, so that both read the same ones. Says
"ready" before the first step, waits for a line, answers with seconds and steps when training is over, and with
"embedded" once FOLDER/<who>.pt has the embeddings of the bank and the test images before and after training.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from lightning import Callback, Trainer, seed_everything
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from scripts.accuracy_peer import Network, Task, Training, loader_of
from scripts.budget import Budget

# N images, D embedding


@torch.no_grad()
def embed(module: nn.Module, networks: Mapping[str, Network], folder: Path, task: Task) -> dict[str, Tensor]:
    """[N, D] by each network: the bank, then the test images, whole and normalised as for training."""
    images: Tensor = torch.load(folder / "images.pt")["evaluated"]  # [N, 28, 28], uint8
    mean, std = (torch.tensor(task["config"]["views"][name])[:, None, None] for name in ("mean", "std"))
    module.eval()
    found: dict[str, list[Tensor]] = {name: [] for name in networks}
    for some in images.split(500):
        pixels = ((some[:, None].float() / 255).expand(-1, 3, -1, -1) - mean) / std
        for name, network in networks.items():
            found[name].append(network(pixels))
    module.train()
    return {name: torch.cat(parts) for name, parts in found.items()}


class Watch(Callback):
    """Begins and ends training here.

    Args:
        budget: to train in.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    def on_train_epoch_start(self, trainer: Trainer, *_: object) -> None:
        """Waits for the other one, after all that callbacks do before the first epoch."""
        if trainer.current_epoch == 0:
            self.budget.begin()

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        """Stops when the budget is spent."""
        trainer.should_stop = self.budget.spent == 1

    def on_train_end(self, trainer: Trainer, *_: object) -> None:
        """Answers."""
        self.budget.end(trainer.global_step)


def ours(folder: Path, task: Task, budget: Budget) -> None:
    """`python train.py` with the words of the task; schedules follow the budget in place of steps."""
    import spt
    from spt.run import prepare
    from spt.schedules import Schedule
    from spt.teacher_student import Branch
    from spt.types import Progress

    def by_budget(schedule: Schedule) -> Schedule:
        points = task["points"]
        return lambda progress: schedule(Progress(int((points - 1) * budget.spent), points, points))

    def network(branch: nn.Module) -> Network:
        if isinstance(branch, Branch):
            return lambda images: branch([images], project=False).embeddings[0]
        return lambda images: branch(images).embeddings

    run = prepare(spt.compose(*task["words"], f"hydra.run.dir={folder / 'ours'}"))
    wrapper, recipe = run.module.method.networks, run.module.recipe
    networks = {"student": network(wrapper.student)}
    if wrapper.momentum is not None:
        networks["teacher"] = network(wrapper.teacher)
        wrapper.momentum = by_budget(wrapper.momentum)
    schedules = {name: by_budget(getattr(recipe, name)) for name in ("lr_schedule", "weight_decay_schedule")}
    run.module.recipe = replace(recipe, **schedules)
    before = embed(run.module, {"student": networks["student"]}, folder, task)  # the teacher starts as the student
    run.trainer.callbacks.insert(0, Watch(budget))  # type: ignore[attr-defined]  # before the last checkpoint is written
    run.trainer.fit(run.module, datamodule=run.data)
    after = embed(run.module, networks, folder, task)
    torch.save({"before": before, "after": after}, folder / "ours.pt")


def stable_pretraining(folder: Path, task: Task, budget: Budget) -> None:
    """Its method class, transforms and data set, in a LightningModule and a DataLoader as its documentation shows."""
    from stable_pretraining.callbacks import TeacherStudentCallback

    seed_everything(task["seed"], verbose=False)
    training = Training(folder, task, budget)
    before = embed(training, {"student": training.networks["student"]}, folder, task)
    trainer = Trainer(
        accelerator="cpu", max_epochs=task["config"]["trainer"]["max_epochs"], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        gradient_clip_val=task["config"]["optimizer"]["clip_norm"],
        callbacks=[TeacherStudentCallback(), Watch(budget)],
    )  # fmt: skip
    trainer.fit(training, loader_of(folder, task))
    after = embed(training, training.networks, folder, task)
    torch.save({"before": before, "after": after}, folder / "stable-pretraining.pt")


WORKERS = {"ours": ours, "stable-pretraining": stable_pretraining}


def main() -> None:
    """Trains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("who", choices=WORKERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("core", type=int)
    arguments = parser.parse_args()
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries talk
    os.sched_setaffinity(0, {arguments.core})
    torch.set_num_threads(1)
    task = json.loads((arguments.folder / "task.json").read_text())
    WORKERS[arguments.who](arguments.folder, task, Budget(answers, task["seconds"]))
    print("embedded", file=answers, flush=True)


if __name__ == "__main__":
    main()
