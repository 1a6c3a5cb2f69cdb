"""Which run wrote a checkpoint, and which of its weights are the network that the run's method evaluates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

import yaml

from spt.checkpoint.progress import RUN
from spt.checkpoint.reading import Stored
from spt.config.errors import CheckpointError
from spt.config.targets import class_literals


class Origin(NamedTuple):
    """What `spt.checkpoint.card` has written down.

    Attributes:
        step, total_steps: optimizer steps done, and of the whole run.
        epoch: passes over the data that were complete, or the one under way.
        world_size: processes.
        choices: the option chosen in each group.
        config: resolved, as YAML; not to be built before spt.config.trust has seen it.
        metrics: the latest, by name.
        versions: of packages, by name.
    """

    step: int
    total_steps: int
    epoch: int
    world_size: int
    choices: Mapping[str, str]
    config: str
    metrics: Mapping[str, float]
    versions: Mapping[str, str]


def origin(stored: Stored) -> Origin:
    """The run that wrote a checkpoint.

    Raises:
        CheckpointError: it does not say.
    """
    run = stored.rest.get(RUN)
    if not isinstance(run, dict) or not all(field in run for field in Origin._fields):
        raise CheckpointError(
            f"{stored.path} is no checkpoint of a run of this project: it does not say which run wrote it."
        )
    known = cast("Mapping[str, object]", run)
    return Origin(**{field: known[field] for field in Origin._fields})  # type: ignore[arg-type]


def evaluated_weights(stored: Stored) -> dict[str, str]:
    """Names of the weights of the evaluated network's backbone: as timm calls them, to those in the checkpoint.

    Raises:
        CheckpointError: the checkpoint does not say what its method evaluates, or the backbone is no timm model.
    """
    network = f"method.networks.{evaluated_network(stored)}."
    names = [name for name in stored.weights if name.startswith(network)]
    if any(name.startswith(f"{network}backbone.") for name in names):  # a branch, with a head beside the backbone
        network = f"{network}backbone."
        names = [name for name in names if name.startswith(network)]
    prefix = f"{network}network."
    strange = [name for name in names if not name.startswith(prefix)]
    if strange or not names:
        found = f"it holds {strange[0]}" if strange else f"nothing in it is called {network}..."
        raise CheckpointError(f"{stored.path} does not hold a backbone that is a timm model, called network: {found}.")
    return {name.removeprefix(prefix): name for name in names}


def evaluated_network(stored: Stored) -> str:
    """Which network of the method its `embed` asks: student or teacher.

    Raises:
        CheckpointError: the source of its method is not found.
    """
    config = yaml.safe_load(origin(stored).config)
    method = config.get("method") if isinstance(config, dict) else None
    target = str(method.get("_target_")) if isinstance(method, dict) else ""
    evaluates = class_literals(target).get("evaluates") if target else None  # read from source, not imported
    if not isinstance(evaluates, str):
        raise CheckpointError(
            f"{stored.path} was written by method {target or '?'}, whose source is not found here, so "
            "nothing says whether its student or its teacher is evaluated. Run this where the method is installed."
        )
    return evaluates
