"""What ranks are asked to do by the tests of fsdp2, and what they report."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.plugins import HalfPrecision
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils._python_dispatch import TorchDispatchMode

from spt.distributed.shards import local, norms
from spt.finite import NonFiniteLossError
from spt.module import SSLModule
from spt.reporting.quiet import quiet
from spt.types import Sample
from tests.strategies.cases import (
    Case,
    build_data,
    build_module,
    build_strategy,
    build_trainer,
    train_all,
    whole_state,
)

BASE = Case("dino", "fsdp2")


def fit(case: Case, *callbacks: Callback, module: SSLModule | None = None, **changes: object) -> SSLModule:
    """The module after a training under the case's strategy."""
    warnings.simplefilter("error")
    quiet()
    torch.manual_seed(dist.get_rank())
    module = module or build_module(case)
    with tempfile.TemporaryDirectory() as folder:
        build_trainer(case, Path(folder), callbacks, **changes).fit(module, datamodule=build_data())
    return module


def shard_by_hand(module: LightningModule, mesh: DeviceMesh) -> None:
    """A user's parallelize_fn: every network as one unit."""
    method = cast(SSLModule, module).method
    for network in (method.networks.student, method.networks.teacher):
        fully_shard(network, mesh=mesh["data_parallel"], reshard_after_forward=True)


def shard_student_only(module: LightningModule, mesh: DeviceMesh) -> None:
    """A parallelize_fn that forgets the teacher."""
    fully_shard(cast(SSLModule, module).method.networks.student, mesh=mesh["data_parallel"])


def shard_nothing(module: LightningModule, mesh: DeviceMesh) -> None:
    """A parallelize_fn that does nothing."""


def options_cases() -> dict[str, Case]:
    """Trainings that must all end alike."""
    mesh = partial(init_device_mesh, "cpu", (2,), mesh_dim_names=("data_parallel",))
    changes: dict[str, dict[str, object]] = {
        "base": {},
        "blocks stay gathered": {"reshard_after_forward": False},
        "offloaded": {"cpu_offload": True},
        "a mesh of the user's own": {"mesh": mesh},
        "divided by the user": {"parallelize_fn": shard_by_hand},
    }
    return {name: Case("dino", "fsdp2", options=options) for name, options in changes.items()}


def disturbed_cases() -> dict[str, Case]:
    """Trainings with something harmless between steps."""
    events = ("metric_forward", "teacher_forward", "probe_step")
    return {event: Case("dino", "fsdp2", event=event) for event in events}


def refusal(action: Callable[[], object]) -> str:
    """The text of the ValueError that an action raises."""
    try:
        action()
    except ValueError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def refusals() -> dict[str, str]:
    """The texts of what fsdp2 refuses, on one rank."""
    stray = build_module(BASE)
    stray.method.register_parameter("logit_scale", nn.Parameter(torch.ones(1)))
    misaligned = build_module(BASE)
    misaligned.method.networks.teacher.get_submodule("head").mlp[2] = nn.Linear(11, 7)
    return {
        "stray": refusal(lambda: fit(BASE, module=stray)),
        "misaligned": refusal(lambda: fit(BASE, module=misaligned)),
        "teacher left out": refusal(lambda: fit(Case("dino", "fsdp2", options={"parallelize_fn": shard_student_only}))),
        "nothing": refusal(lambda: fit(Case("dino", "fsdp2", options={"parallelize_fn": shard_nothing}))),
        "sizes": refusal(lambda: fit(Case("dino", "fsdp2", options={"replicate_size": 3}))),
        "mesh": refusal(
            lambda: fit(
                Case("dino", "fsdp2", options={"mesh": partial(init_device_mesh, "cpu", (1,), mesh_dim_names=("dp",))})
            )
        ),
        "float16": refusal(lambda: setattr(build_strategy("fsdp2"), "precision_plugin", HalfPrecision("16-true"))),
    }


class Collectives(TorchDispatchMode):
    """Counts calls of torch.distributed by name while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if func.namespace == "c10d":
            name = func._schema.name.removeprefix("c10d::")
            self.counts[name] = self.counts.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


class Counter(Callback):
    """Counts collectives of every micro-batch, optimizer step and teacher update included."""

    def __init__(self) -> None:
        self.counts: list[dict[str, int]] = []
        self._mode = Collectives()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Sample, batch_idx: int) -> None:
        self._mode = Collectives()
        self._mode.__enter__()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self._mode.__exit__(None, None, None)
        self.counts.append(self._mode.counts)


class Bytes(Callback):
    """Sizes on this rank after a step: parameters, gradients, optimizer state, teacher."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.has_only_shards = False
        self.moves_teacher = True

    def on_before_zero_grad(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        networks = cast(SSLModule, pl_module).method.networks
        moved = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.has_only_shards = all(isinstance(parameter, DTensor) for parameter in moved)
        teacher = {id(parameter) for parameter in networks.teacher.parameters()}
        self.moves_teacher = any(id(parameter) in teacher for parameter in moved)
        state = [value for entry in optimizer.state.values() for value in entry.values() if value.ndim]
        self.sizes = {
            "parameters": _bytes(moved),
            "gradients": _bytes([parameter.grad for parameter in moved if parameter.grad is not None]),
            "optimizer": _bytes(state),
            "teacher": _bytes(list(networks.teacher.parameters())),
        }


def _bytes(tensors: list[Tensor]) -> int:
    return sum(local(tensor).numel() * tensor.element_size() for tensor in tensors)


def measured() -> dict[str, object]:
    """Collectives and bytes under both strategies."""
    found: dict[str, object] = {}
    for strategy in ("ddp", "fsdp2"):
        sizes, counter = Bytes(), Counter()
        # the gradients of a step are still there before the next one zeroes them
        fit(Case("dino", strategy, rule="adamw", accumulation=1), sizes)
        found[f"{strategy} bytes"] = sizes.sizes
        found[f"{strategy} only shards"] = sizes.has_only_shards
        found[f"{strategy} moves teacher"] = sizes.moves_teacher
        fit(Case("byol", strategy, batch_norm="local"), counter)
        found[f"{strategy} collectives"] = counter.counts
    return found


def fit_validate_fit() -> dict[str, object]:
    """Two fits with a validation between, against one fit twice as long, and the lines logged at the start."""
    warnings.simplefilter("error")
    quiet()
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    strategy_logger = logging.getLogger("spt.strategies.fsdp2")
    strategy_logger.addHandler(handler)
    strategy_logger.setLevel(logging.INFO)
    torch.manual_seed(dist.get_rank())
    module, data = build_module(BASE), build_data()
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(BASE, Path(folder), limit_val_batches=1.0, num_sanity_val_steps=-1)
        trainer.fit(module, datamodule=data)
        trainer.validate(module, datamodule=data, verbose=False)
        middle = whole_state(module.method)
        trainer.fit_loop.max_epochs = 2
        trainer.fit(module, datamodule=data)
    strategy_logger.removeHandler(handler)
    return {"log": records, "middle": middle, "end": whole_state(module.method), "steps": trainer.global_step}


class BadImage(Callback):
    """Makes one rank's loss infinite at step 2."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Sample, batch_idx: int) -> None:
        if batch_idx == 2 and trainer.global_rank == self.rank:
            views = cast(SSLModule, pl_module).views
            views.mean = [float("nan")] * 3


def stopped_by_one_rank(strategy: str) -> str:
    """What each rank says when only rank 1 sees a bad image."""
    try:
        fit(Case("dino", strategy), BadImage(1))
    except NonFiniteLossError as error:
        return str(error)
    raise AssertionError("the run went on")


def two_ranks() -> dict[str, object]:
    """Everything that needs two ranks."""
    return {
        "options": {name: train_all([case])[case] for name, case in options_cases().items()},
        "disturbed": {name: train_all([case])[case] for name, case in disturbed_cases().items()},
        "measured": measured(),
        "fits": fit_validate_fit(),
        "stopped": {strategy: stopped_by_one_rank(strategy) for strategy in ("ddp", "fsdp2")},
    }


def four_ranks() -> dict[str, object]:
    """Copies of shards, and two ranks working on the same images."""
    hybrid = Case("simclr", "fsdp2", options={"replicate_size": 2}, clip_unit="global")
    tensor = Case(
        "dino", "fsdp2", options={"tensor_parallel_size": 2, "parallelize_fn": shard_by_hand}, clip_unit="global"
    )
    return {
        "hybrid": train_all([hybrid])[hybrid],
        "tensor": train_all([tensor])[tensor],
        "norms": norms_in_two_dimensions(),
    }


def norms_in_two_dimensions() -> dict[str, list[float]]:
    """Norms of weights that tensor parallelism has cut by columns and by rows, and fully_shard once more."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data_parallel", "tensor_parallel"))
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 5))
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
    parallelize_module(network, mesh["tensor_parallel"], plan)
    fully_shard(network, mesh=mesh["data_parallel"])
    weights = [cast(DTensor, weight) for weight in network.parameters()]
    return {
        "cut": norms(weights).tolist(),
        "whole": [float(weight.full_tensor().detach().norm()) for weight in weights],
    }


def one_rank() -> dict[str, object]:
    """What the others are compared with, and refusals."""
    single = [Case("simclr", "single", clip_unit="global"), Case("dino", "single", clip_unit="global")]
    return {"single": {case.method: train_all([case])[case] for case in single}, "refusals": refusals()}
