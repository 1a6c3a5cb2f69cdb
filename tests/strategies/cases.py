"""Short trainings of tiny methods under any strategy, to be run on every rank of a group."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import Strategy
from torch import Tensor, nn

from methods.byol import BYOL
from methods.dino import DINO
from methods.ijepa import IJEPA
from methods.simclr import SimCLR
from spt.callbacks.compilation import Compilation
from spt.data.module import ImageData
from spt.data.sources.fake import Fake
from spt.distributed.batch_norm import replace_batch_norm
from spt.distributed.shards import full
from spt.heads.masked_predictor import MaskedPredictor
from spt.heads.projection import BYOLHead, DINOHead, SimCLRHead
from spt.method import Method
from spt.module import SSLModule
from spt.optim.lars import LARS
from spt.optim.recipe import OptimizerRecipe
from spt.reporting.quiet import quiet
from spt.schedules import Cosine, Linear
from spt.strategies.ddp import DDPStrategy
from spt.strategies.fsdp2 import FSDP2Strategy
from spt.strategies.precision import NumberFormats
from spt.strategies.single import SingleStrategy
from spt.views.masks import MultiBlock
from tests.methods.batches import tiny_vit
from tests.views.recipes import CROP_ONLY, make_views

# B images per device

METHODS = ("byol", "dino", "ijepa", "simclr")
STEPS, GLOBAL_BATCH, SIZE = 5, 16, 16


@dataclass(frozen=True)
class Case:
    """One training.

    Attributes:
        method: name.
        strategy: single | ddp | fsdp2.
        accumulation: micro-batches of an optimizer step.
        rule: update rule.
        clip_unit: None clips nothing.
        precision: in Lightning's words.
        batch_norm: local | global.
        options: of the strategy.
        freeze_steps: first steps in which the backbone does not move.
        compile: blocks | step; None compiles nothing.
        event: what is done to the networks between steps, see Disturbance; for methods whose student is a Branch.
    """

    method: str
    strategy: str
    accumulation: int = 1
    rule: str = "sgd"
    clip_unit: str | None = None
    precision: str = "32-true"
    batch_norm: str = "global"
    options: dict[str, object] = field(default_factory=dict)
    freeze_steps: int = 0
    compile: Literal["blocks", "step"] | None = None
    event: str | None = None

    def __hash__(self) -> int:
        return hash(repr(self))


def identify(case: Case) -> str:
    """A short name for pytest: what is not the default."""
    default = vars(Case(case.method, ""))
    return "-".join([case.method, *(str(value) for key, value in vars(case).items() if value != default[key])])


class Outcome(NamedTuple):
    """What a training left.

    Attributes:
        losses: of every micro-batch, the mean over ranks.
        state: every parameter and buffer of the method, whole.
    """

    losses: list[float]
    state: dict[str, Tensor]


def build_method(name: str, batch_norm: str = "global") -> Method:
    """A tiny method of that name, with weights of torch's global random state."""
    momentum = Cosine(0.9, 1.0, "from_zero")
    vit = tiny_vit(image_size=SIZE, class_token=name != "ijepa", positions="sincos" if name == "ijepa" else "learned")
    # images that hardly differ would make BatchNorm blow up every rounding error
    for parameter in vit.parameters():
        if parameter.requires_grad and parameter.ndim > 1:
            parameter.data.mul_(8.0)
    method: Method
    if name == "simclr":
        head = partial(SimCLRHead, hidden_dim=11, output_dim=6, num_layers=2)
        method = SimCLR(vit, head=head, temperature=0.5)
    elif name == "byol":
        head, predictor = partial(BYOLHead, hidden_dim=11), partial(BYOLHead, hidden_dim=7)
        method = BYOL(vit, head=head, predictor=predictor, projection_dim=5, momentum=momentum)
    elif name == "dino":
        dino_head = partial(
            DINOHead, hidden_dim=11, bottleneck_dim=6, num_layers=2, batch_norm=False, freeze_norm=True
        )  # fmt: skip
        method = DINO(
            vit, head=dino_head, num_prototypes=13, student_temperature=0.1, center_momentum=0.9, momentum=momentum,
            teacher_temperature=Linear(0.04, 0.04, "from_zero"), freeze_last_layer_epochs=0,
        )  # fmt: skip
    else:
        method = IJEPA(vit, predictor=partial(MaskedPredictor, predictor_dim=12, depth=1), momentum=momentum)
    if batch_norm == "global":
        replace_batch_norm(method, across_ranks=True)
    return method


def build_module(case: Case) -> SSLModule:
    """The module around it, with real views, masks and recipe."""
    num_views = 1 if case.method == "ijepa" else 2
    views = make_views(
        {f"view{number}": CROP_ONLY for number in range(num_views)}, global_size=SIZE, local_size=8,
        local_view=CROP_ONLY, num_local_views=2 if case.method == "dino" else 0,
    )  # fmt: skip
    masks = MultiBlock(
        seed=0, image_size=SIZE, patch_size=4, context_scale=[0.85, 1.0], context_ratio=[1.0, 1.0],
        target_scale=[0.15, 0.2], target_ratio=[0.75, 1.5], num_targets=2, min_keep=2, edges="reachable",
        truncation="random", scale_and_ratio="independent",
    )  # fmt: skip
    rules: dict[str, Callable[..., torch.optim.Optimizer]] = {
        # foreach is what GPUs use; on CPUs torch would take another path
        "sgd": partial(torch.optim.SGD, momentum=0.9, foreach=True),
        "adamw": partial(torch.optim.AdamW, foreach=True),
        "lars": partial(LARS, momentum=0.9, trust_coefficient=0.02, momentum_form="lr_outside"),
    }
    # small where BatchNorm and many steps would make of rounding a difference that can be seen
    lr = {"sgd": 0.001 if case.method in ("byol", "simclr") else 0.02, "adamw": 0.001, "lars": 0.05}[case.rule]
    recipe = OptimizerRecipe(
        rules=rules, rule=case.rule, lr=lr, lr_schedule=Linear(lr, lr / 2, "from_zero"), weight_decay=0.01,
        weight_decay_schedule=Linear(0.01, 0.02, "from_zero"), exempt_from_decay="bias_and_norm",
        clip_norm=None if case.clip_unit is None else 0.05, clip_unit=case.clip_unit or "global",
    )  # fmt: skip
    method = build_method(case.method, case.batch_norm)
    masks_of_method = masks if case.method == "ijepa" else None
    return SSLModule(method, views=views, masks=masks_of_method, recipe=recipe, seed=0, freeze_steps=case.freeze_steps)


def build_data() -> ImageData:
    """Random images, five steps an epoch; a validation set that does not divide evenly."""
    source = Fake(image_size=SIZE, num_classes=3, num_images=STEPS * GLOBAL_BATCH, num_val_images=7)
    return ImageData(
        source=source, image_size=SIZE, num_classes=3, num_images=None, mean=[0.0] * 3, std=[1.0] * 3,
        evaluation_crop=1.0, bank_size=6, global_batch_size=GLOBAL_BATCH, evaluation_batch_size=3, num_workers=0,
        pin_memory=False, images_on="auto", seed=0,
    )  # fmt: skip


FSDP2_OPTIONS: dict[str, object] = {
    "data_parallel_size": "auto", "replicate_size": 1, "tensor_parallel_size": 1, "mesh": None,
    "mp_policy": NumberFormats(None, "float32", True), "reshard_after_forward": True, "cpu_offload": False,
    "reduce_every_micro_batch": True, "save_distributed_checkpoint": False, "parallelize_fn": None,
    "timeout_seconds": 60.0,
}  # fmt: skip


def build_strategy(name: str, options: dict[str, object] | None = None) -> Strategy:
    """A strategy with the values of its YAML, but for the timeout and what `options` changes."""
    if name == "single":
        return SingleStrategy()
    if name == "ddp":
        ddp = {"find_unused_parameters": False, "gradient_as_bucket_view": True, "bucket_cap_mb": 25.0}
        return DDPStrategy(**{**ddp, "timeout_seconds": 60.0, **(options or {})})  # type: ignore[arg-type]
    return FSDP2Strategy(**{**FSDP2_OPTIONS, **(options or {})})  # type: ignore[arg-type]


def build_trainer(case: Case, folder: Path, callbacks: Sequence[Callback] = (), **changes: object) -> Trainer:
    """A trainer for all ranks of the group."""
    settings: dict[str, object] = {
        "accelerator": "cpu", "devices": torch.distributed.get_world_size(), "precision": case.precision,
        "strategy": build_strategy(case.strategy, case.options), "accumulate_grad_batches": case.accumulation,
        "max_epochs": 1, "limit_val_batches": 0, "num_sanity_val_steps": 0, "log_every_n_steps": 1,
        "logger": False, "callbacks": list(callbacks), "enable_checkpointing": False, "enable_progress_bar": False,
        "enable_model_summary": False, "use_distributed_sampler": False, "default_root_dir": folder,
        "inference_mode": False,
    }  # fmt: skip
    return Trainer(**{**settings, **changes})  # type: ignore[arg-type]


class Losses(Callback):
    """Keeps the mean over ranks of every micro-batch's loss."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self.values.append(float(trainer.callback_metrics["train/loss"]))


class Disturbance(Callback):
    """Does something harmless to the networks between backward and optimizer step, or after it."""

    def __init__(self, event: str) -> None:
        self.event = event

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: object) -> None:
        if self.event == "metric_forward":
            _embed_with(pl_module.method.networks.student)  # type: ignore[union-attr, arg-type]

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        if self.event == "teacher_forward":
            _embed_with(pl_module.method.networks.teacher)  # type: ignore[union-attr, arg-type]
        elif self.event == "probe_step":
            embeddings = _embed_with(pl_module.method.networks.student)  # type: ignore[union-attr, arg-type]
            probe = nn.Linear(embeddings.shape[-1], 2)
            probe(embeddings.detach()).sum().backward()


@torch.no_grad()
def _embed_with(network: nn.Module) -> Tensor:
    embeddings: Tensor = network([torch.ones(2, 3, SIZE, SIZE)]).embeddings
    return embeddings


def train(case: Case) -> Outcome:
    """Trains and gives what is left: the same on every rank."""
    warnings.simplefilter("error")
    quiet()
    torch.manual_seed(torch.distributed.get_rank())  # rank 0 as a single process; the others differ and must not matter
    losses = Losses()
    callbacks: list[Callback] = [losses, *([Disturbance(case.event)] if case.event else [])]
    if case.compile is not None:  # without code in C++, which takes a minute; graphs and gradients are the same
        callbacks.append(Compilation(scope=case.compile, backend="aot_eager", mode="default"))
    module = build_module(case)
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(case, Path(folder), callbacks)
        data = build_data()
        trainer.fit(module, datamodule=data)
    return Outcome(losses.values, whole_state(module.method))


def whole_state(module: nn.Module) -> dict[str, Tensor]:
    """Copies of all parameters and buffers, gathered."""
    return {name: full(value).detach().clone() for name, value in module.state_dict().items()}


def train_all(cases: Sequence[Case]) -> dict[Case, Outcome]:
    """One training after the other in one process group."""
    return {case: train(case) for case in cases}
