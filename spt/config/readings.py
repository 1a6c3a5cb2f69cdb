"""Single facts read from the values of a config, flat by dotted key."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from spt.config.targets import Literal, class_literals, signature
from spt.config.tree import Plain, project_tree, read_yaml


def text(values: Mapping[str, Plain], key: str) -> str | None:
    """A value that is text."""
    value = values.get(key)
    return value if isinstance(value, str) else None


def whole(values: Mapping[str, Plain], key: str) -> int | None:
    """A value that is a whole number."""
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def limit(values: Mapping[str, Plain], key: str) -> int | None:
    """A limit of the run, null being another way to write -1."""
    return -1 if key in values and values[key] is None else whole(values, key)


def class_facts(values: Mapping[str, Plain], node: str) -> dict[str, Literal]:
    """The literals that the class of a node states."""
    target = text(values, f"{node}._target_")
    return {} if target is None else class_literals(target)


def flag(facts: Mapping[str, Plain] | Mapping[str, Literal], name: str) -> bool | None:
    """A value or literal that is true or false."""
    value = facts.get(name)
    return value if isinstance(value, bool) else None


def count(facts: Mapping[str, Literal], name: str) -> int | None:
    """A literal that is a whole number."""
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def either(first: bool | None, second: bool | None) -> bool | None:
    """True when one is; unknown when neither is and one is not known."""
    if first or second:
        return True
    return None if first is None or second is None else False


def image_folder(values: Mapping[str, Plain], data: str | None) -> tuple[str | None, str | None]:
    """Where training images are read from, and whether there are any."""
    root = text(values, "data.source.root")
    if data != "image_folder" or root is None:
        return None, None
    folder = Path(root).expanduser()
    if not folder.is_dir():
        return root, "absent"
    return root, "filled" if any(folder.iterdir()) else "empty"


def missing_file(values: Mapping[str, Plain], key: str) -> str | None:
    """The file or folder that a key names, if there is no such thing on this machine."""
    name = text(values, key)
    return None if name is None or Path(name).expanduser().exists() else name


def block_sizes(values: Mapping[str, Plain]) -> tuple[int | None, int | None]:
    """Tokens of the smallest target block and of the largest block of all, on the grid of the global views."""
    size, patch = whole(values, "views.global_size"), whole(values, "backbone.patch_size")
    smallest = number(values.get("masks.target_scale.0"))
    upper = [number(values.get(f"masks.{block}_scale.1")) for block in ("context", "target")]
    shares = [share for share in upper if share is not None]
    if size is None or not patch or smallest is None or not shares:
        return None, None
    tokens = (size // patch) ** 2
    return max(1, math.floor(smallest * tokens)), math.ceil(max(shares) * tokens)


def number(value: Plain) -> float | None:
    """A value that is a number."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def warmups(values: Mapping[str, Plain], prefix: str) -> Iterator[tuple[str, float]]:
    """Warm-ups of schedules below a dotted key, in passes over the data."""
    for key, value in values.items():
        epochs = number(value)
        if key.startswith(prefix) and key.endswith("warmup_epochs") and epochs is not None:
            yield key, epochs


# numbers that mean nothing below these
_LEAST = {"seed": 0, "trainer.accumulate_grad_batches": 1, "trainer.check_val_every_n_epoch": 1,
          "trainer.log_every_n_steps": 1, "data.num_workers": 0, "backbone.freeze_steps": 0, "data.bank_size": 1,
          "data.evaluation_batch_size": 1, "probes.knn.k": 1,
          "data.source.reduced_decoding": 1}  # fmt: skip


# last words of the keys of networks that count something or give a width
_SIZES = {"patch_size", "embed_dim", "depth", "num_heads", "num_layers", "hidden_dim", "bottleneck_dim", "output_dim",
          "projection_dim", "predictor_dim", "num_prototypes"}  # fmt: skip


def too_small(values: Mapping[str, Plain]) -> Iterator[tuple[str, float, int]]:
    """Numbers below the least that means something, by key, with that least."""
    sizes = {key: 1 for key in values if key.startswith(("backbone.", "method.")) and key.split(".")[-1] in _SIZES}
    for key, least in {**_LEAST, **sizes}.items():
        value = number(values.get(key))
        if value is not None and value < least:
            yield key, value, least


def momentums(values: Mapping[str, Plain]) -> Iterator[tuple[str, float]]:
    """Numbers called momentum in method, optimizer and probes, and those of schedules that are called so."""
    for key, value in values.items():
        group, *inner = key.split(".")
        weight = number(value)
        is_momentum = any(f"_{name}".endswith("_momentum") for name in inner) and not inner[-1].endswith("epochs")
        if group in ("method", "optimizer", "probes") and is_momentum and weight is not None:
            yield key, weight


def children(values: Mapping[str, Plain], key: str) -> set[str]:
    """Names of what a node holds."""
    return {inner[len(key) + 1 :].split(".")[0] for inner in values if inner.startswith(f"{key}.")}


def count_built(values: Mapping[str, Plain], key: str) -> int | None:
    """How many of a node's children are made from something; None when there are no children."""
    names = children(values, key)
    # a recipe may write numbers of a view that is not there
    return sum(f"{key}.{name}._target_" in values for name in names) if names else None


def targets(values: Mapping[str, Plain]) -> list[str]:
    """What every node of the config is made from."""
    return [value for key, value in values.items() if key.endswith("_target_") and isinstance(value, str)]


def is_given(values: Mapping[str, Plain], key: str) -> bool | None:
    """Whether a key holds something; None when there is no such key."""
    if children(values, key):
        return True
    return values[key] is not None if key in values else None


def asks_for(values: Mapping[str, Plain], key: str, name: str) -> bool:
    """Whether a key of this last name is true, or a value names this class or function."""
    return any(
        (inner.split(".")[-1] == key and value is True) or (isinstance(value, str) and value.endswith(name))
        for inner, value in values.items()
    )


# last words of the names of Lightning's classes, without Strategy
_KINDS = {"SingleDevice": "single", "Single": "single", "DDP": "ddp", "FSDP": "fsdp", "FSDP2": "fsdp2",
          "ModelParallel": "fsdp2", "DeepSpeed": "deepspeed", "DeepSpeedStage3": "deepspeed"}  # fmt: skip


def strategy_kind(values: Mapping[str, Plain], choice: str | None) -> str | None:
    """What the strategy's class is, or the option that was chosen where there is no class."""
    target = text(values, "strategy._target_")
    if target is None:
        return {"deepspeed_stage_3": "deepspeed"}.get(choice or "", choice)
    if target.split(".")[0] not in ("spt", "lightning"):
        return None
    return _KINDS.get(target.rpartition(".")[2].removesuffix("Strategy"))


def foreign_options(node: Plain) -> Iterator[tuple[str, str]]:
    """Keys of the strategy that its class does not take and that of another option does, with that option."""
    if not isinstance(node, dict) or not isinstance(node.get("_target_"), str):
        return
    own = _parameters(node)
    tree = project_tree()
    for option in tree.options("strategy"):
        file = tree.file("strategy", option)
        theirs = set() if file is None else _parameters(read_yaml(file))
        yield from ((key, option) for key in node if own and key not in own and key in theirs)


def _parameters(node: Mapping[str, Plain]) -> set[str]:
    found = signature(str(node.get("_target_")))
    return set() if found is None else {"_target_", *(parameter.name for parameter in found.parameters)}


def deepspeed_world_size(checkpoint: Path) -> int | None:
    """Processes that wrote a DeepSpeed checkpoint folder: each has a file of optimizer state."""
    return len(list(checkpoint.glob("*/*zero_pp_rank_*_optim_states.pt"))) or None
