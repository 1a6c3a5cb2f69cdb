"""The network that an evaluation is of, from a run, an exported file or timm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import safetensors.torch
import timm
from torch import nn

from spt.backbones.backbone import Backbone
from spt.backbones.recipe import TimmRecipe
from spt.backbones.timm_model import timm_backbone, wrapped
from spt.config.errors import ConfigError
from spt.config.evaluated import Source, exported_file, read_header
from spt.config.tree import Plain
from spt.export.evaluated import Evaluated, Inputs


class Network(NamedTuple):
    """A network and what it must be shown.

    Attributes:
        backbone: in evaluation mode.
        inputs: size, crop and normalisation of its images.
        precision: that it was evaluated in while it trained, in Lightning's words.
        facts: where it comes from, for results: plain values by name.
        step: optimizer steps that made it; None where that is not known.
    """

    backbone: Backbone
    inputs: Inputs
    precision: str
    facts: dict[str, str | int]
    step: int | None


def open_network(
    source: Source, *, checkpoint: str, pretrained: bool, packages: Sequence[str], drop_path: float = 0.0
) -> Network:
    """The network of a source, the one that the method evaluates.

    Args:
        source: where it comes from.
        checkpoint: of a run folder: last | best | a name.
        pretrained: of a timm name: False gives random weights.
        packages: beyond spt's own that the run's config may name.
        drop_path: rate of stochastic depth at the last block, for networks that are to be trained further.

    Raises:
        ConfigError: it cannot be read or built, or is not trusted.
    """
    if source.timm_name is not None:
        return _of_timm(source.timm_name, pretrained=pretrained, drop_path=drop_path)
    assert source.path is not None, "a source is a path or a timm name"
    if exported_file(source.path) is not None:
        return _of_export(source.path, drop_path)
    evaluated = Evaluated(source.path, checkpoint=checkpoint, packages=packages)
    origin = evaluated.origin
    facts: dict[str, str | int] = {
        "source": str(source.path),
        "checkpoint": evaluated.path.name,
        "network": evaluated.network,
        **{group: origin.choices[group] for group in ("method", "backbone") if group in origin.choices},
        "step": origin.step,
    }
    precision = origin.choices.get("precision", "32-true")
    return Network(evaluated.build_backbone(drop_path), evaluated.inputs, precision, facts, origin.step)


def _of_export(path: Path, drop_path: float) -> Network:
    header, file = read_header(path), exported_file(path)
    assert file is not None, "asked of exported files"
    try:
        recipe = cast("Mapping[str, Plain]", json.loads(header["timm"]))
        inputs = Inputs(
            int(header["image_size"]), float(header.get("evaluation_crop", 1.0)),
            json.loads(header["mean"]), json.loads(header["std"]),
        )  # fmt: skip
        name, arguments = str(recipe["name"]), cast("dict[str, object]", recipe["arguments"])
        stem, step = str(recipe["stem"]), int(header["step"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"source={path} does not say how its network is built ({type(error).__name__}: {error}); export it again "
            "with scripts/export_backbone.py."
        ) from None
    if not timm.is_model(name):
        raise ConfigError(f"source={path} is of the timm model {name}, which timm {timm.__version__} does not have.")
    known = {key: value for key, value in arguments.items() if key not in ("checkpoint_path", "pretrained")}
    built = TimmRecipe(name, {**known, "drop_path_rate": drop_path}, "cifar" if stem == "cifar" else "as_in_timm")
    network = built.build()
    network.load_state_dict(safetensors.torch.load_file(file), strict=True)
    facts: dict[str, str | int] = {
        "source": str(path),
        **{key: header[key] for key in ("network", "method", "backbone") if header.get(key)},
        "step": step,
    }
    return Network(wrapped(network, built).eval(), inputs, "32-true", facts, step)


def _of_timm(name: str, *, pretrained: bool, drop_path: float) -> Network:
    backbone = timm_backbone(name=name, pretrained=pretrained, drop_path=drop_path, options={})
    config = timm.data.resolve_model_data_config(cast(nn.Module, backbone.network))
    size, mean, std = (cast("list[float]", list(config[key])) for key in ("input_size", "mean", "std"))
    inputs = Inputs(int(size[-1]), float(cast(float, config["crop_pct"])), mean, std)
    facts: dict[str, str | int] = {"source": f"timm:{name}", "weights": "pretrained" if pretrained else "random"}
    return Network(backbone.eval(), inputs, "32-true", facts, None)
