"""From a run to files that are of use without it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch
from torch import Tensor

from spt.checkpoint.resume import CHECKPOINTS
from spt.config.errors import CheckpointError, ConfigError
from spt.export.card import card, header
from spt.export.evaluated import Evaluated
from spt.export.programs import example, write_exported, write_torchscript
from spt.export.safetensors_file import write_safetensors
from spt.reporting.atomic import write_text

# B images, S pixels, D embedding


class Format(NamedTuple):
    """A way to write the evaluated network.

    Attributes:
        suffix: of the file; none for a folder.
        write: writes it.
        loading: lines of Python that leave the network in `model`.
    """

    suffix: str
    write: Callable[[Evaluated, Path], None]
    loading: Callable[[Evaluated, Path], str]


def export_backbone(evaluated: Evaluated, *, format: str, output: Path | None, verify: bool) -> list[Path]:
    """Writes the evaluated network without prefixes, and beside it a card.

    Args:
        evaluated: the network on disk.
        format: a key of FORMATS.
        output: the file, or for timm the folder; by default in the folder `export` of the run. The format's ending
            is added where it lacks.
        verify: True also loads what was written into plain timm, strictly, and compares embeddings of noise with those
            of this project's backbone. That holds the network in memory; without it safetensors and timm hold one
            tensor at a time. Programs are always compared.

    Returns:
        What was written: the network first, its card last.

    Raises:
        CheckpointError: it could not be written, or gives other embeddings.
        ConfigError: there is no such format, or it cannot hold this network.
    """
    if format not in FORMATS:
        raise ConfigError(f"format={format} does not exist; use format={'|'.join(FORMATS)}.")
    chosen = FORMATS[format]
    path = default_output(evaluated, chosen.suffix) if output is None else _with_suffix(output, chosen.suffix)
    chosen.write(evaluated, path)
    if verify:
        check_embeddings(evaluated, path)
    beside = path / "README.md" if path.is_dir() else path.with_name(f"{path.name.removesuffix('.safetensors')}.md")
    size, dim = evaluated.inputs.size, evaluated.embed_dim
    use = f"embeddings = model(images)  # [B, 3, {size}, {size}], normalised -> [B, {dim}]"
    write_text(beside, card(evaluated, loading=f"{chosen.loading(evaluated, path)}\n{use}"))
    return [path, beside]


def default_output(evaluated: Evaluated, suffix: str) -> Path:
    """In the run's folder, or beside a checkpoint that lies elsewhere: METHOD-BACKBONE-DATA-stepN."""
    folder = evaluated.path.parent
    folder = folder.parent / "export" if folder.name == CHECKPOINTS else folder
    words = [evaluated.origin.choices.get(group, "") for group in ("method", "backbone", "data")]
    return folder / f"{'-'.join(word for word in words if word)}-step{evaluated.origin.step}{suffix}"


def _with_suffix(path: Path, suffix: str) -> Path:
    return path if path.name.endswith(suffix) else path.with_name(f"{path.name}{suffix}")


@torch.no_grad()
def check_embeddings(evaluated: Evaluated, path: Path) -> None:
    """Compares embeddings of plain timm with what was written to those of this project's backbone.

    Raises:
        CheckpointError: they differ by more than rounding.
    """
    file = path / "model.safetensors" if path.is_dir() else path
    images = example(evaluated)
    expected: Tensor = evaluated.build_backbone()(images).embeddings  # [B, D]
    if file.suffix == ".safetensors":
        network = evaluated.recipe.build().eval()
        network.load_state_dict(safetensors.torch.load_file(file), strict=True)
    else:
        network = evaluated.build()  # which the program was compared with
    found = network(images)
    if not torch.allclose(expected, found, atol=1e-4, rtol=1e-4):
        difference = float((expected - found).abs().max())
        raise CheckpointError(f"{file} gives embeddings in timm that differ by up to {difference:.1e}.")


def _write_safetensors(evaluated: Evaluated, path: Path) -> None:
    write_safetensors(path, evaluated.tensors, evaluated.read, metadata=header(evaluated))


def _write_timm(evaluated: Evaluated, path: Path) -> None:
    """The folder that timm writes for the Hugging Face hub."""
    if evaluated.recipe.stem != "as_in_timm":
        raise ConfigError(
            f"format=timm names a model that timm builds, and timm has no {evaluated.recipe.name} with a stem for "
            "small images; use format=safetensors, whose card says what to replace, or format=torch_export."
        )
    inputs = evaluated.inputs
    _write_safetensors(evaluated, path / "model.safetensors")
    config: Mapping[str, object] = {
        "architecture": evaluated.recipe.name,
        "num_classes": 0,
        "num_features": evaluated.embed_dim,
        "model_args": evaluated.recipe.arguments,
        "pretrained_cfg": {
            "input_size": [3, inputs.size, inputs.size],
            "mean": inputs.mean,
            "std": inputs.std,
            "crop_pct": inputs.crop,
            "num_classes": 0,
            "tag": evaluated.origin.choices.get("method", ""),
        },
    }
    write_text(path / "config.json", json.dumps(config, indent=2) + "\n")


def _load_safetensors(evaluated: Evaluated, path: Path) -> str:
    return "\n".join(
        [
            "import safetensors.torch",
            evaluated.recipe.code(),
            f'model.load_state_dict(safetensors.torch.load_file("{path.name}"), strict=True)',
            "model.eval()",
        ]
    )


FORMATS: dict[str, Format] = {
    "safetensors": Format(".safetensors", _write_safetensors, _load_safetensors),
    "timm": Format(
        "",
        _write_timm,
        lambda evaluated, path: (
            f'import timm\n\nmodel = timm.create_model("local-dir:{path.name}", pretrained=True, num_classes=0).eval()'
        ),
    ),
    "torchscript": Format(
        ".pt", write_torchscript, lambda evaluated, path: f'import torch\n\nmodel = torch.jit.load("{path.name}")'
    ),
    "torch_export": Format(
        ".pt2",
        write_exported,
        lambda evaluated, path: f'import torch\n\nmodel = torch.export.load("{path.name}").module()',
    ),
}
