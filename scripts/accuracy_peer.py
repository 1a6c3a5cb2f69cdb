"""What bench_accuracy.py builds of stable-pretraining: method, optimizer and images, with the numbers of one config.

Its images go one of two ways. `dataloader`: its torchvision transforms of PIL images (of tensors they take longer), in
its data set and PyTorch's DataLoader. `batch`: its transforms by kornia, a batch at a time; they are made for GPUs
and crop bilinearly, whatever the config says.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning import LightningModule
from PIL import Image
from torch import Tensor, nn

from scripts.budget import Budget

# B images, S pixels

Network = Callable[[Tensor], Tensor]
Task = dict[str, Any]  # plain JSON


class Training(LightningModule):
    """A method class as its documentation shows; schedules follow the budget in place of steps.

    Args:
        folder: where the weights are that the other contestant starts from.
        task: what to do.
        budget: to train in.

    Attributes:
        networks: that embed.
    """

    def __init__(self, folder: Path, task: Task, budget: Budget) -> None:
        super().__init__()
        self.task, self.budget = task, budget
        self.model, self.networks = _method_of(task, _backbone_of(folder, task))
        self.views = _views_of(task)

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        """The loss of the views."""
        views: list[Any] = self.views(batch)
        if self.task["method"] == "dino":
            views = [views[: self.task["num_global_views"]], views[self.task["num_global_views"] :]]
        loss = self.model(*views).loss
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW."""
        return _optimizer_of(self, self.task)

    def on_train_batch_start(self, *_: object) -> None:
        """Writes learning rate, weight decay and momentum."""
        from stable_pretraining.backbone import TeacherStudentWrapper

        point = int((self.task["points"] - 1) * self.budget.spent)
        (optimizer,) = self.trainer.optimizers
        for group in optimizer.param_groups:
            group["lr"] = self.task["lr"][point]
            if group["weight_decay"]:
                group["weight_decay"] = self.task["weight_decay"][point]
        for module in self.modules():  # its callback takes the momentum of an epoch from between these two
            if isinstance(module, TeacherStudentWrapper):
                module.base_ema_coefficient.fill_(self.task["momentum"][point])
                module.final_ema_coefficient.fill_(self.task["momentum"][point])


def _backbone_of(folder: Path, task: Task) -> nn.Module:
    """timm's network with the weights that the other contestant starts from."""
    import timm

    is_dynamic = task["method"] != "ijepa"  # small crops need it, and its I-JEPA cannot have it
    network = timm.create_model(task["backbone"]["name"], **task["backbone"]["arguments"], dynamic_img_size=is_dynamic)
    network.load_state_dict(torch.load(folder / "start.pt"))
    network.pos_embed.requires_grad_(task["config"]["backbone"]["positions"] == "learned")
    return network


def _method_of(task: Task, backbone: nn.Module) -> tuple[nn.Module, dict[str, Network]]:
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


def _optimizer_of(training: nn.Module, task: Task) -> torch.optim.Optimizer:
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


def loader_of(folder: Path, task: Task) -> torch.utils.data.DataLoader[Any]:
    """Its data set, in the training process."""
    import stable_pretraining as peer

    transforms = peer.data.transforms
    transform = transforms.Compose(transforms.ToImage(rgb=True))
    if task["augments"] == "dataloader":
        transform = transforms.MultiViewTransform([_transform(*recipe) for recipe in _recipes(task)])
    dataset = peer.data.FromTorchDataset(Pictures(folder), names=["image", "label"], transform=transform)
    batch = task["config"]["data"]["global_batch_size"]
    return torch.utils.data.DataLoader(dataset, batch_size=batch, shuffle=True, drop_last=True, num_workers=0)


def _views_of(task: Task) -> Callable[[dict[str, Any]], list[Tensor]]:
    """What takes the views [B, 3, S, S] out of a batch of the loader, or makes them of its images."""
    if task["augments"] == "dataloader":
        return lambda batch: [view["image"] for view in batch["views"]]
    pipelines = [_batch_transform(*recipe) for recipe in _recipes(task)]
    return lambda batch: [pipeline({"image": batch["image"]})["image"] for pipeline in pipelines]


def _recipes(task: Task) -> list[tuple[dict[str, Any], int, list[float], list[float]]]:
    """Numbers of each view, its pixels, and means and deviations of the channels."""
    views = task["config"]["views"]
    recipes = [(view, views["global_size"], views["mean"], views["std"]) for view in views["global_views"].values()]
    return (
        recipes + [(views["local_view"], views["local_size"], views["mean"], views["std"])] * views["num_local_views"]
    )


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


def _batch_transform(view: dict[str, Any], size: int, mean: list[float], std: list[float]) -> Callable[..., Any]:
    """The same by its transforms of a batch."""
    from stable_pretraining.data import gpu_transforms as transforms

    strengths = [view[name] for name in ("brightness", "contrast", "saturation", "hue")]
    steps = [
        transforms.GPURandomResizedCrop(size, scale=tuple(view["crop_scale"]), ratio=tuple(view["crop_ratio"])),
    ]
    steps += [transforms.GPURandomHorizontalFlip(p=view["flip"])] if view["flip"] else []
    steps += [transforms.GPUColorJitter(*strengths, p=view["jitter"])] if view["jitter"] else []
    steps += [transforms.GPURandomGrayscale(p=view["gray"])] if view["gray"] else []
    # no range around kornia's threshold, which is the half
    steps += [transforms.GPURandomSolarize(0.0, 0.0, p=view["solarize"])] if view["solarize"] else []
    is_normalised = (mean, std) != ([0.0] * 3, [1.0] * 3)
    return transforms.GPUCompose([*steps, *([transforms.GPUNormalize(mean, std)] if is_normalised else [])])
