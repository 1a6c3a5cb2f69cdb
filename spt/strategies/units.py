"""Into which units a network is divided, whatever its architecture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torch import nn

from spt.teacher_student import Branch


class Unit(NamedTuple):
    """A part of a network that is gathered and freed as a whole.

    Attributes:
        name: dotted, below the network.
        module: the part.
    """

    name: str
    module: nn.Module


def plan_units(network: nn.Module) -> list[Unit]:
    """The blocks of a network, in order; what is left over belongs to the network itself.

    Blocks are the elements of the innermost stacks: lists of modules of one class that have modules with parameters
    of their own, such as the blocks of a transformer or the residual blocks of each stage of a ResNet. Heads are never
    divided: a unit for every Linear of an MLP costs ten collectives where one does.
    """
    if isinstance(network, Branch):
        return list(_blocks("backbone", network.backbone))
    return list(_blocks("", network))


def _blocks(prefix: str, module: nn.Module) -> Iterator[Unit]:
    is_stack = _is_stack(module)
    for name, child in module.named_children():
        path = f"{prefix}.{name}" if prefix else name
        inner = list(_blocks(path, child))
        if inner:
            yield from inner
        elif is_stack:
            yield Unit(path, child)


def _is_stack(module: nn.Module) -> bool:
    elements = list(module.children())
    return (
        isinstance(module, (nn.Sequential, nn.ModuleList))
        and len({type(element) for element in elements}) == 1
        and all(_is_composite(element) for element in elements)
    )


def _is_composite(module: nn.Module) -> bool:
    return any(next(child.parameters(), None) is not None for child in module.children())
