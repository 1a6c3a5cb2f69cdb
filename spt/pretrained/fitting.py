"""Weights of others under timm's names and in this network's sizes; every tensor is used, or left out on purpose."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from spt.backbones.recipe import Positions
from spt.config.errors import ConfigError

# N patches, D embedding

# names that other codes have for what timm calls otherwise; a name that the network has itself is never changed
_RENAMED = (
    (re.compile(r"blocks\.\d+\.(\d+)\.(.+)"), r"blocks.\1.\2"),  # DINOv2's block_chunks: the second number counts on
    (re.compile(r"register_tokens"), "reg_token"),  # DINOv2
    (re.compile(r"(.+)\.mlp\.w12\.(.+)"), r"\1.mlp.fc1.\2"),  # DINOv2, ViT-g: gate and value in one
    (re.compile(r"(.+)\.mlp\.w3\.(.+)"), r"\1.mlp.fc2.\2"),
)

# what is no part of a backbone
_LEFT_OUT = (
    re.compile(r"(head|dino_head|ibot_head)\..+"),  # DINO's and DINOv2's projection heads; ViT classifiers
    re.compile(r"(fc|head_dist|pre_logits\.fc)\.(weight|bias)"),  # classifiers of ResNets, DeiT, old ViTs
    re.compile(r"mask_token"),  # DINOv2: stands for patches that training hides
)

# what tensors that are not used, or that are missing, tell about the network that they come from
_ADVICE = (
    (re.compile(r"unused cls_token"), "backbone.class_token=true"),
    (re.compile(r"missing cls_token"), "backbone.class_token=false"),
    (re.compile(r"unused (reg_token|blocks\.0\.ls1\.gamma)"), "backbone=timm backbone.name=<a model of that name>"),
    (re.compile(r"shape patch_embed\.proj\.weight"), "the backbone.patch_size and width of the file"),
    (re.compile(r"(unused|missing) blocks\.\d+\."), "the backbone.depth of the file"),
)


class Fitted(NamedTuple):
    """Weights for a network.

    Attributes:
        tensors: by the network's names and in its shapes.
        left_out: names in the file that are no part of a backbone.
        resampled: grids of position embeddings before and after; None where they were equal.
    """

    tensors: dict[str, Tensor]
    left_out: list[str]
    resampled: tuple[tuple[int, int], tuple[int, int]] | None


def fit(weights: Mapping[str, Tensor], network: nn.Module, positions: Positions | None, *, source: str) -> Fitted:
    """Maps names, resamples positions, and asks that nothing is missing and nothing is left over.

    Args:
        weights: by the names of the file.
        network: a timm model without classifier.
        positions: where it keeps its position embeddings, if it has any.
        source: for the message, such as backbone.init_from=dino.pth.

    Raises:
        ConfigError: lists tensors that are not used, that are missing, and that have another shape.
    """
    expected = network.state_dict()
    named = {_timm_name(name, expected): tensor for name, tensor in weights.items()}
    resampled = None
    if positions is not None and "pos_embed" in named:
        named, resampled = _with_positions(named, expected, positions)
    left_out = [name for name in named if name not in expected and any(part.fullmatch(name) for part in _LEFT_OUT)]
    given = {name: tensor for name, tensor in named.items() if name not in left_out}
    # a counter that old files lack, and that only a BatchNorm without momentum would read
    counters = {name: tensor for name, tensor in expected.items() if name.endswith("num_batches_tracked")}
    problems = list(_problems({**counters, **given}, expected))
    if problems:
        words = "; ".join(f"{len(names)} {what}: {', '.join(collapsed(names))}" for what, names in problems)
        hints = _hints(given, expected) or ["the backbone that these weights were trained in"]
        raise ConfigError(
            f"{source} is of another network than the backbone: {words}.\n    try: {', '.join(hints)}; or "
            "backbone.init_from=null"
        )
    return Fitted({**counters, **given}, left_out, resampled)


def _timm_name(name: str, expected: Mapping[str, Tensor]) -> str:
    if name not in expected:
        for pattern, replacement in _RENAMED:
            if pattern.fullmatch(name):
                return pattern.sub(replacement, name)
    return name


def _problems(given: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> Iterator[tuple[str, list[str]]]:
    unused = [name for name in given if name not in expected]
    missing = [name for name in expected if name not in given]
    different = [
        f"{name} {tuple(given[name].shape)} here {tuple(expected[name].shape)}"
        for name in expected
        if name in given and given[name].shape != expected[name].shape
    ]
    for what, names in (
        ("of its tensors are not used", unused),
        ("of the backbone's are not in it", missing),
        ("have another shape", different),
    ):
        if names:
            yield what, names


def collapsed(names: Iterable[str]) -> list[str]:
    """All names, those that differ only in their first number in one: blocks.0-11.norm1.weight."""
    numbers: dict[str, list[int]] = {}
    for name in names:
        start, *number = re.split(r"\.(\d+)\.", name, maxsplit=1)
        pattern = f"{start}.#.{number[1]}" if number else start
        numbers.setdefault(pattern, []).extend(int(found) for found in number[:1])
    return sorted(pattern.replace("#", _ranges(found)) if found else pattern for pattern, found in numbers.items())


def _ranges(numbers: list[int]) -> str:
    """0-3,7 for 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def _hints(given: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> list[str]:
    facts = [f"unused {name}" for name in given if name not in expected]
    facts += [f"missing {name}" for name in expected if name not in given]
    facts += [f"shape {name}" for name in expected if name in given and given[name].shape != expected[name].shape]
    return [advice for pattern, advice in _ADVICE if any(pattern.match(fact) for fact in facts)]


def _with_positions(
    named: Mapping[str, Tensor], expected: Mapping[str, Tensor], ours: Positions
) -> tuple[dict[str, Tensor], tuple[tuple[int, int], tuple[int, int]] | None]:
    """Position embeddings on our grid, with a position for as many tokens before the patches as we have."""
    positions = named["pos_embed"]  # [1, prefix + N, D]
    theirs = _layout(positions.shape[1], ours.num_prefix)
    if positions.ndim != 3 or theirs is None:
        return dict(named), None
    changed = dict(named)
    prefix, patches = positions[:, : theirs.num_prefix], positions[:, theirs.num_prefix :]
    if ours.num_prefix > theirs.num_prefix:  # a token without a position is one whose position is 0
        missing = ours.num_prefix - theirs.num_prefix
        prefix = torch.cat([prefix, prefix.new_zeros(1, missing, positions.shape[2])], dim=1)
    elif ours.num_prefix < theirs.num_prefix and "cls_token" in named:  # and one that has one can carry it in itself
        changed["cls_token"] = named["cls_token"] + prefix[:, :1]
        prefix = prefix[:, : ours.num_prefix]
    bare = Positions(0, theirs.grid)
    changed["pos_embed"] = torch.cat([prefix, bare.resampled(patches, ours.grid)], dim=1)
    return changed, None if theirs.grid == ours.grid else (theirs.grid, ours.grid)


def _layout(length: int, likely: int) -> Positions | None:
    """How many of a file's positions are those of a square grid of patches."""
    for num_prefix in (likely, 1, 0):
        side = math.isqrt(max(length - num_prefix, 0))
        if side and side * side == length - num_prefix:
            return Positions(num_prefix, (side, side))
    return None
