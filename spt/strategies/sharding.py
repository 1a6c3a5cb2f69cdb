"""Dividing a method's networks over a mesh, and the checks that nothing was left out."""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

from spt.config.errors import ConfigError
from spt.distributed.batch_norm import replace_batch_norm
from spt.distributed.shards import local
from spt.method import Method
from spt.strategies.precision import of_root
from spt.strategies.units import plan_units


class Options(NamedTuple):
    """What fully_shard is given for every unit.

    Attributes:
        mesh: one dimension to shard over; or two, replicas first.
        policy: number formats of inner units.
        reshard_after_forward: of inner units.
        offload: where shards live.
    """

    mesh: DeviceMesh
    policy: MixedPrecisionPolicy
    reshard_after_forward: bool | int
    offload: OffloadPolicy


class Subtree(NamedTuple):
    """A sharded network, for the log.

    Attributes:
        name: dotted, below the method.
        num_units: that are gathered on their own, the root included.
        num_parameters: of the whole network.
        num_bytes: of its parameters on this process.
    """

    name: str
    num_units: int
    num_parameters: int
    num_bytes: int


def roots(method: Method) -> dict[str, nn.Module]:
    """The networks that are sharded each as a whole: student, teacher, and every other child with parameters."""
    found: dict[str, nn.Module] = {"networks.student": method.networks.student}
    if method.networks.has_teacher:
        found["networks.teacher"] = method.networks.teacher
    for name, child in method.named_children():
        if name != "networks" and next(child.parameters(), None) is not None:
            found[name] = child
    return found


def is_sharded(module: nn.Module) -> bool:
    """Whether parts of the module are fully_shard units already."""
    return any(isinstance(part, FSDPModule) for part in module.modules())


def shard(method: Method, options: Options) -> None:
    """Divides every network of the method: blocks first, then the root with what is left and its heads."""
    if options.policy.param_dtype not in (None, torch.float32):
        # torch's layer would meet half-precision weights and float32 statistics, which its kernels refuse
        replace_batch_norm(method, across_ranks=False)
    for root in roots(method).values():
        for unit in plan_units(root):
            fully_shard(
                unit.module,
                mesh=options.mesh,
                reshard_after_forward=options.reshard_after_forward,
                mp_policy=options.policy,
                offload_policy=options.offload,
            )
        fully_shard(
            root,
            mesh=options.mesh,
            # always: a root left gathered after a forward without gradients hides what is written to its shards, and
            # the teacher would stand still without an error
            reshard_after_forward=True,
            mp_policy=of_root(options.policy),
            offload_policy=options.offload,
        )


def check_complete(module: nn.Module) -> None:
    """Asks that every trainable parameter is on a mesh: others are never averaged, and ranks drift apart in silence.

    Raises:
        ConfigError: nothing is trainable or nothing was sharded, or some parameters were left out; names them.
    """
    trainable = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    stray = [name for name, parameter in trainable.items() if not isinstance(parameter, DTensor)]
    if len(stray) == len(trainable):
        raise ConfigError(
            f"strategy=fsdp2 found nothing to shard among {len(trainable)} trainable parameters: networks.student and "
            "the other modules of a method are divided, and strategy.parallelize_fn in their place. Put the networks "
            "there, let parallelize_fn call fully_shard, or use strategy=ddp."
        )
    if stray:
        raise ConfigError(
            f"{len(stray)} trainable parameters would be left outside the mesh: {', '.join(stray[:5])}"
            f"{', ...' if len(stray) > 5 else ''}. Their gradients would not be averaged. Put them into a module "
            "that is a child of the method, freeze them, or use strategy=ddp."
        )


def check_alignment(method: Method) -> None:
    """Asks that the teacher is divided exactly as the student: it is averaged shard by shard.

    Raises:
        ConfigError: names the first parameter that differs.
    """
    if not method.networks.has_teacher:
        return
    pairs = zip_longest(method.networks.student.named_parameters(), method.networks.teacher.named_parameters())
    for student, teacher in pairs:
        ours, theirs = (_described(*named) if named is not None else "nothing" for named in (student, teacher))
        if ours != theirs:
            raise ConfigError(
                f"The student has {ours} where the teacher has {theirs}; an average over shards needs them alike. "
                "Build the teacher with TeacherStudentWrapper, and divide both alike in strategy.parallelize_fn."
            )


def _described(name: str, parameter: nn.Parameter) -> str:
    placements = f" {parameter.placements}" if isinstance(parameter, DTensor) else ""
    return f"{name} {tuple(parameter.shape)}{placements}"


def subtrees(method: Method) -> list[Subtree]:
    """What was divided into what."""
    return [
        Subtree(
            name,
            sum(isinstance(part, FSDPModule) for part in root.modules()),
            sum(parameter.numel() for parameter in root.parameters()),
            sum(local(parameter).numel() * parameter.element_size() for parameter in root.parameters()),
        )
        for name, root in roots(method).items()
    ]
