"""Weights to start from, out of whatever file or folder holds them. Nothing in it is run."""

from __future__ import annotations

import argparse
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from spt.checkpoint.folder import newest
from spt.checkpoint.origin import evaluated_network, evaluated_weights, origin
from spt.checkpoint.progress import RUN
from spt.checkpoint.reading import open_checkpoint
from spt.checkpoint.resume import CHECKPOINTS, is_run_folder
from spt.checkpoint.writing import WEIGHTS
from spt.config.errors import CheckpointError

# what a training checkpoint keeps beside the evaluated network, and where that one is
_NETWORKS = {
    "target_encoder": "I-JEPA's target encoder",  # src/helper.py, train.py: "encoder", "predictor", "opt", ...
    "teacher": "the teacher of DINO or DINOv2",  # main_dino.py: "student", "args", ...; dinov2/eval/setup.py
    "state_dict": "state_dict",
    "model": "model",  # timm, DeiT
}


class Weights(NamedTuple):
    """Tensors by name, as the file has them but for what wraps the whole network.

    Attributes:
        tensors: of a file of torch.save, they stay on disk until they are used.
        source: whose they are, for the log.
    """

    tensors: Mapping[str, Tensor]
    source: str


def read_weights(path: Path) -> Weights:
    """The evaluated network of a run of this project, or what a file of weights holds.

    Args:
        path: a run folder, a checkpoint of a run in one file or a folder, a safetensors file, or a file of torch.save
            as DINO, DINOv2, I-JEPA, timm and torchvision publish.

    Raises:
        CheckpointError: there is no such thing, or no weights in it, or it holds more than plain data.
    """
    path = path.expanduser()
    if not path.exists():
        raise CheckpointError(f"backbone.init_from={path} does not exist; give a file, or the folder of a run.")
    if path.is_dir():
        return _of_run(path)
    if path.suffix == ".safetensors":
        try:
            return Weights(safetensors.torch.load_file(path), "safetensors")
        except SafetensorError as error:
            raise CheckpointError(f"backbone.init_from={path} cannot be read: {error}.") from None
    content = _read(path)
    return _of_run(path) if RUN in content and WEIGHTS in content else _of_file(path, content)


def _of_run(path: Path) -> Weights:
    found = newest(path / CHECKPOINTS) if is_run_folder(path) else path
    if found is None:
        raise CheckpointError(f"backbone.init_from={path} has no complete checkpoint; give another run, or a file.")
    stored = open_checkpoint(found.resolve())
    names = evaluated_weights(stored)
    read = stored.read_weights(names.values())
    known = origin(stored)
    method = known.choices.get("method", "a run")
    source = f"the {evaluated_network(stored)} of {method} after {known.step} steps"
    return Weights({name: read[key] for name, key in names.items()}, source)


def _of_file(path: Path, content: Mapping[str, object]) -> Weights:
    key = next((key for key in _NETWORKS if isinstance(content.get(key), dict)), None)
    inner = content if key is None else cast("Mapping[str, object]", content[key])
    tensors = {name: value for name, value in inner.items() if isinstance(value, Tensor)}
    if not tensors or len(tensors) < len(inner):
        others = [f"{name} ({type(value).__name__})" for name, value in inner.items() if not isinstance(value, Tensor)]
        raise CheckpointError(
            f"backbone.init_from={path} is no file of weights: it holds {', '.join(others[:5]) or 'nothing'}. "
            f"Weights are looked for in it, or under one of its keys {', '.join(_NETWORKS)}."
        )
    # of DistributedDataParallel, then of DINO's MultiCropWrapper and DINOv2's ModuleDict, which hold heads as well
    for prefix in ("module.", "backbone."):
        if any(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return Weights(tensors, "weights" if key is None else _NETWORKS[key])


def _read(path: Path) -> dict[str, object]:
    """A file of torch.save. DINO's full checkpoints hold their command line beside tensors, which is plain data too."""
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(path, map_location="cpu", mmap=zipfile.is_zipfile(path), weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        reason = (
            f"holds more than plain data, and reading it would run code of its author: {named.group(1)}"
            if named is not None
            else "is no file of tensors"
        )
        raise CheckpointError(
            f"backbone.init_from={path} {reason}.\n    try: a file of tensors alone, as of safetensors.torch.save_file"
        ) from None
    except (RuntimeError, EOFError, OSError) as error:
        raise CheckpointError(
            f"backbone.init_from={path} cannot be read: {' '.join(str(error).split())[:200]}."
        ) from None
    if not isinstance(content, dict):
        raise CheckpointError(f"backbone.init_from={path} holds a {type(content).__name__}, and weights are a dict.")
    return content
