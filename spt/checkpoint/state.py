"""Weights and optimizer state by name: the same names and whole shapes under single, ddp and fsdp2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from spt.config.errors import CheckpointError
from spt.distributed.shards import full, local, reshard

Entry = dict[str, Tensor | float]
"""What an optimizer keeps for one parameter, by key, such as exp_avg."""


def named_weights(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter and persistent buffer, live; shards under fsdp2."""
    reshard(module)
    return cast("dict[str, Tensor]", module.state_dict())


def optimizer_state(module: nn.Module, optimizer: Optimizer) -> dict[str, object]:
    """{"state": {parameter: Entry}, "param_groups": [...], "defaults": {...}}, live, parameters by name.

    torch numbers parameters by their place in the optimizer, which a frozen layer or another grouping changes.
    """
    reshard(module)
    names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    state = {names[parameter]: dict(entry) for parameter, entry in optimizer.state.items()}
    groups = [
        {**_plain(group), "params": [names[parameter] for parameter in group["params"]]}
        for group in optimizer.param_groups
    ]
    return {"state": state, "param_groups": groups, "defaults": _plain(optimizer.defaults)}


def _plain(group: Mapping[str, object]) -> dict[str, object]:
    """A group's settings without its parameters, tuples as lists."""
    items = {name: value for name, value in group.items() if name != "params"}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in items.items()}


@torch.no_grad()
def load_weights(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copies whole tensors into the module, each process its part.

    Args:
        module: whose names and shapes must be those of `weights`.
        weights: whole, on any device, the same on every process.

    Raises:
        CheckpointError: names or shapes differ; lists them.
    """
    targets = named_weights(module)
    check_shapes({name: target.shape for name, target in targets.items()}, shapes(weights))
    for name, target in targets.items():
        _fill(target, weights[name])


def load_optimizer(module: nn.Module, optimizer: Optimizer, saved: Mapping[str, object]) -> None:
    """Takes over what `optimizer_state` gave, with whole tensors.

    A setting of a group, such as betas, that the config has changed since then keeps its new value.

    Raises:
        CheckpointError: the state is of other parameters.
    """
    state = cast("Mapping[str, Entry]", saved["state"])
    parameters = trainable(optimizer, module)
    check_optimizer_names(state, parameters)
    optimizer.state.clear()
    for name, entry in state.items():
        parameter = parameters[name]
        optimizer.state[parameter] = {
            key: restored(value, parameter, steps_on_cpu=key == "step" and keeps_steps_on_cpu(optimizer))
            for key, value in entry.items()
        }
    load_groups(optimizer, saved, {parameter: name for name, parameter in parameters.items()})


def load_groups(optimizer: Optimizer, saved: Mapping[str, object], names: Mapping[Tensor, str]) -> None:
    """Takes over the settings of groups, but for those whose default has changed since."""
    groups = cast("list[dict[str, object]]", saved["param_groups"])
    before, now = cast("Mapping[str, object]", saved["defaults"]), _plain(optimizer.defaults)
    kept = {key for key in now if key in before and before[key] != now[key]}
    by_first = {cast("list[str]", group["params"])[0]: group for group in groups}
    for group in optimizer.param_groups:
        for key, value in by_first.get(names[group["params"][0]], {}).items():
            if key != "params" and key not in kept:
                group[key] = tuple(cast("list[object]", value)) if isinstance(group.get(key), tuple) else value


def trainable(optimizer: Optimizer, module: nn.Module) -> dict[str, nn.Parameter]:
    """The optimizer's parameters by their names in the module."""
    reshard(module)
    moved = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    return {name: parameter for name, parameter in module.named_parameters() if parameter in moved}


def check_optimizer_names(saved: Iterable[str], parameters: Mapping[str, nn.Parameter]) -> None:
    """Raises:
    CheckpointError: optimizer state of parameters that are not trained.
    """
    unknown = sorted(set(saved) - set(parameters))
    if unknown:
        raise CheckpointError(
            f"The checkpoint has optimizer state for {len(unknown)} parameters that this run does not train: "
            f"{listed(unknown)}. Go on with the method and backbone that wrote it, or start from its weights alone "
            "with backbone.init_from=<checkpoint>."
        )


def keeps_steps_on_cpu(optimizer: Optimizer) -> bool:
    """Whether the counters of steps are host tensors beside parameters on a device, as torch has them by default."""
    return not optimizer.defaults.get("fused") and not optimizer.defaults.get("capturable")


def restored(value: Tensor | float, parameter: nn.Parameter, *, steps_on_cpu: bool) -> Tensor | float:
    """A whole value of an optimizer's entry as the optimizer wants it beside `parameter`: divided as that one is."""
    if not isinstance(value, Tensor):
        return value
    if value.shape != parameter.shape:
        return value.to("cpu" if steps_on_cpu else local(parameter).device, copy=True)
    empty = like(parameter, value.dtype)
    _fill(empty, value)
    return empty


def like(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    """Zeros of the parameter's shape, device and division."""
    return torch.zeros_like(parameter, dtype=dtype, requires_grad=False)


def _fill(target: Tensor, whole: Tensor) -> None:
    """Copies this process's part of a whole tensor; nothing is sent."""
    part = whole
    if isinstance(target, DTensor):
        part = local(distribute_tensor(whole, target.device_mesh, target.placements, src_data_rank=None))
    local(target).copy_(part)


def whole_on_first(tensor: Tensor, *, is_first: bool, copies: bool) -> Tensor | None:
    """The whole tensor in host memory on the first process, None on the others; one tensor at a time is gathered.

    Args:
        tensor: whole or sharded.
        is_first: this is the first process.
        copies: True copies a whole tensor that is in host memory already.
    """
    whole = full(tensor.detach())
    if not is_first:
        return None
    return whole.to("cpu", copy=copies and not isinstance(tensor, DTensor))


def shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Whole shapes by name."""
    return {name: tensor.shape for name, tensor in tensors.items()}


def check_shapes(ours: Mapping[str, torch.Size], theirs: Mapping[str, torch.Size]) -> None:
    """Asks that a checkpoint fits a module, name by name.

    Raises:
        CheckpointError: lists what is missing, what is too much, and what has another shape.
    """
    problems = []
    for words, names in (
        ("lacks", sorted(ours.keys() - theirs.keys())),
        ("has, and this run has not,", sorted(theirs.keys() - ours.keys())),
    ):
        if names:
            problems.append(f"it {words} {len(names)} tensors: {listed(names)}")
    different = [
        f"{name} {tuple(theirs[name])} here {tuple(ours[name])}"
        for name in sorted(ours.keys() & theirs.keys())
        if ours[name] != theirs[name]
    ]
    if different:
        problems.append(f"{len(different)} have another shape: {listed(different)}")
    if problems:
        raise CheckpointError(
            f"The checkpoint is of another network: {'; '.join(problems)}. Go on with the method and backbone that "
            "wrote it (resume=<its run folder> takes them from there), or start from its backbone alone with "
            "backbone.init_from=<checkpoint>."
        )


def listed(names: Iterable[str], limit: int = 5) -> str:
    """The first few of many."""
    names = list(names)
    return ", ".join(names[:limit]) + (f", and {len(names) - limit} more" if len(names) > limit else "")
