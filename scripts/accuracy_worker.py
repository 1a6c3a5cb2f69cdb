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
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import torch
from PIL import Image
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from scripts.timing import Stopwatch

# N images, D embedding

Network = Callable[[Tensor], Tensor]
Task = dict[str, Any]  # plain JSON


class Budget:
    """So much processor time of this process to train in, which begins when both contestants are ready.

    Args:
        answers: where to answer.
        seconds: of processor time.
    """

    def __init__(self, answers: TextIO, seconds: float) -> None:
        self.answers, self.seconds = answers, seconds
        self.watch = Stopwatch()

    def begin(self) -> None:
        """Waits for the other one."""
        print("ready", file=self.answers, flush=True)
        if not sys.stdin.readline():
            raise SystemExit
        self.watch = Stopwatch()

    @property
    def spent(self) -> float:
        """Share of it, up to 1."""
        return min(1.0, self.watch.lap(1).processor / self.seconds)

    def end(self, steps: int) -> None:
        """After the last step."""
        print(json.dumps([*self.watch.lap(1), steps]), file=self.answers, flush=True)


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


def ours(folder: Path, task: Task, budget: Budget) -> None:
    """`python train.py` with the words of the task; schedules follow the budget in place of steps."""
    from lightning import Callback, LightningModule, Trainer

    import spt
    from spt.run import prepare
    from spt.schedules import Schedule
    from spt.teacher_student import Branch
    from spt.types import Progress

    class Watch(Callback):
        def on_train_start(self, *_: object) -> None:
            budget.begin()

        def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
            trainer.should_stop = budget.spent == 1

        def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
            budget.end(trainer.global_step)

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
    run.trainer.callbacks.insert(0, Watch())  # type: ignore[attr-defined]  # before the last checkpoint is written
    run.trainer.fit(run.module, datamodule=run.data)
    after = embed(run.module, networks, folder, task)
    torch.save({"before": before, "after": after}, folder / "ours.pt")


def stable_pretraining(folder: Path, task: Task, budget: Budget) -> None:
    """Its method class, transforms and data set, in a LightningModule and a DataLoader as its documentation shows."""
    import lightning as pl
    from stable_pretraining.backbone import TeacherStudentWrapper
    from stable_pretraining.callbacks import TeacherStudentCallback

    class Training(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.networks = _method(task, _backbone(folder, task))

        def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
            views = [view["image"] for view in batch["views"]]
            if task["method"] == "dino":
                views = [views[: task["num_global_views"]], views[task["num_global_views"] :]]
            loss = self.model(*views).loss
            self.log("train/loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return _optimizer(self, task)

        def on_train_batch_start(self, *_: object) -> None:
            point = int((task["points"] - 1) * budget.spent)
            (optimizer,) = self.trainer.optimizers
            for group in optimizer.param_groups:
                group["lr"] = task["lr"][point]
                if group["weight_decay"]:
                    group["weight_decay"] = task["weight_decay"][point]
            for module in self.modules():  # its callback takes the momentum of an epoch from between these two
                if isinstance(module, TeacherStudentWrapper):
                    module.base_ema_coefficient.fill_(task["momentum"][point])
                    module.final_ema_coefficient.fill_(task["momentum"][point])

        def on_train_start(self) -> None:
            budget.begin()

        def on_train_batch_end(self, *_: object) -> None:
            self.trainer.should_stop = budget.spent == 1

        def on_train_end(self) -> None:
            budget.end(self.trainer.global_step)

    pl.seed_everything(task["seed"], verbose=False)
    training = Training()
    before = embed(training, {"student": training.networks["student"]}, folder, task)
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=task["config"]["trainer"]["max_epochs"], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        gradient_clip_val=task["config"]["optimizer"]["clip_norm"], callbacks=[TeacherStudentCallback()],
    )  # fmt: skip
    trainer.fit(training, _loader(folder, task))
    after = embed(training, training.networks, folder, task)
    torch.save({"before": before, "after": after}, folder / "stable-pretraining.pt")


def _backbone(folder: Path, task: Task) -> nn.Module:
    """timm's network with the weights that the other contestant starts from."""
    import timm

    is_dynamic = task["method"] != "ijepa"  # small crops need it, and its I-JEPA cannot have it
    network = timm.create_model(task["backbone"]["name"], **task["backbone"]["arguments"], dynamic_img_size=is_dynamic)
    network.load_state_dict(torch.load(folder / "start.pt"))
    network.pos_embed.requires_grad_(task["config"]["backbone"]["positions"] == "learned")
    return network


def _method(task: Task, backbone: nn.Module) -> tuple[nn.Module, dict[str, Network]]:
    """Its class with the numbers of the config, and what embeds."""
    from stable_pretraining import methods

    numbers = task["config"]["method"]
    moving = {}
    if "momentum" in numbers:
        moving = {"ema_decay_start": numbers["momentum"]["start"], "ema_decay_end": numbers["momentum"]["end"]}
    if task["method"] == "simclr":
        head = numbers["head"]
        widths = [head["hidden_dim"]] * (head["num_layers"] - 1) + [head["output_dim"]]
        model = methods.SimCLR(backbone, projector_dims=widths, temperature=numbers["temperature"])
        return model, {"student": model.backbone}
    if task["method"] == "byol":
        widths = [(numbers[part]["hidden_dim"], numbers["projection_dim"]) for part in ("head", "predictor")]
        model = methods.BYOL(backbone, projector_dims=widths[0], predictor_dims=widths[1], **moving)
    elif task["method"] == "dino":
        head, temperature = numbers["head"], numbers["teacher_temperature"]
        model = methods.DINO(
            backbone, projector_hidden_dim=head["hidden_dim"], projector_bottleneck_dim=head["bottleneck_dim"],
            n_prototypes=numbers["num_prototypes"], temperature_student=numbers["student_temperature"],
            temperature_teacher_warmup=temperature["start"], temperature_teacher=temperature["end"],
            warmup_epochs_temperature_teacher=temperature["warmup_epochs"],
            center_momentum=numbers["center_momentum"], **moving,
        )  # fmt: skip
    else:
        return _ijepa(task, backbone, moving)
    return model, {"student": model.backbone.student, "teacher": model.backbone.teacher}


def _ijepa(task: Task, backbone: nn.Module, moving: dict[str, float]) -> tuple[nn.Module, dict[str, Network]]:
    from stable_pretraining import methods

    predictor, masks = task["config"]["method"]["predictor"], task["config"]["masks"]
    model = methods.IJEPA(
        backbone, predictor_embed_dim=predictor["predictor_dim"], predictor_depth=predictor["depth"],
        num_targets=masks["num_targets"], target_scale=tuple(masks["target_scale"]),
        target_aspect_ratio=tuple(masks["target_ratio"]), context_scale=tuple(masks["context_scale"]), **moving,
    )  # fmt: skip
    encoders = {"student": model.encoder.student, "teacher": model.encoder.teacher}
    return model, {name: lambda images, e=encoder: e(images).encoded.mean(1) for name, encoder in encoders.items()}


def _optimizer(training: nn.Module, task: Task) -> torch.optim.Optimizer:
    """AdamW, whose decay leaves out biases and norms."""
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in training.named_parameters():
        if parameter.requires_grad:
            groups[parameter.ndim > 1 and not name.endswith("bias")].append(parameter)
    decays = {True: task["weight_decay"][0], False: 0.0}
    rule = task["config"]["optimizer"]["rules"]["adamw"]
    return torch.optim.AdamW(
        [{"params": groups[is_decayed], "weight_decay": decay} for is_decayed, decay in decays.items()],
        lr=task["lr"][0],
        betas=tuple(rule["betas"]),
        eps=rule["eps"],
    )


class Pictures(torch.utils.data.Dataset[tuple[Image.Image, int]]):
    """Images of PIL and labels, as torchvision's FashionMNIST gives them."""

    def __init__(self, folder: Path) -> None:
        stored = torch.load(folder / "images.pt")
        self.images, self.labels = stored["train"].numpy(), stored["train_labels"].tolist()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.fromarray(self.images[index], mode="L"), self.labels[index]


def _loader(folder: Path, task: Task) -> torch.utils.data.DataLoader[Any]:
    """Its data set and its transforms, several views an image, in the training process."""
    import stable_pretraining as peer

    views = task["config"]["views"]
    recipes = [(view, views["global_size"]) for view in views["global_views"].values()]
    recipes += [(views["local_view"], views["local_size"])] * views["num_local_views"]
    augmented = [_transform(view, size, views["mean"], views["std"]) for view, size in recipes]
    transform = peer.data.transforms.MultiViewTransform(augmented)
    dataset = peer.data.FromTorchDataset(Pictures(folder), names=["image", "label"], transform=transform)
    batch = task["config"]["data"]["global_batch_size"]
    return torch.utils.data.DataLoader(dataset, batch_size=batch, shuffle=True, drop_last=True, num_workers=0)


def _transform(view: dict[str, Any], size: int, mean: list[float], std: list[float]) -> Callable[..., Any]:
    """The same draws as `spt.views.view.View` makes of these numbers, by its transforms."""
    from stable_pretraining.data import transforms
    from torchvision.transforms import InterpolationMode

    assert view["brightness_mode"] == "multiplicative", "torchvision has no other"
    assert not view["blur"], "no recipe for images of 28 pixels blurs"
    steps = [
        transforms.RGB(),
        transforms.RandomResizedCrop(
            (size, size), scale=tuple(view["crop_scale"]), ratio=tuple(view["crop_ratio"]),
            interpolation=InterpolationMode(view["interpolation"]),
        ),
    ]  # fmt: skip
    strengths = [view[name] for name in ("brightness", "contrast", "saturation", "hue")]
    steps += [transforms.RandomHorizontalFlip(p=view["flip"])] if view["flip"] else []
    steps += [transforms.ColorJitter(*strengths, p=view["jitter"])] if view["jitter"] else []
    steps += [transforms.RandomGrayscale(p=view["gray"])] if view["gray"] else []
    threshold = round(256 * view["solarize_threshold"])
    steps += [transforms.RandomSolarize(threshold, p=view["solarize"])] if view["solarize"] else []
    is_normalised = (mean, std) != ([0.0] * 3, [1.0] * 3)
    return transforms.Compose(*steps, transforms.ToImage(mean=mean, std=std) if is_normalised else transforms.ToImage())


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
