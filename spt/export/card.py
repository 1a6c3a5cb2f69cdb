"""What an exported network is and how to load it: for a person, as Markdown, and for the header of the file."""

from __future__ import annotations

import json

from spt.export.evaluated import Evaluated


def header(evaluated: Evaluated) -> dict[str, str]:
    """The same facts as text by name, for the metadata of a safetensors file."""
    origin, inputs, recipe = evaluated.origin, evaluated.inputs, evaluated.recipe
    timm = {"name": recipe.name, "arguments": recipe.arguments, "stem": recipe.stem}
    return {
        "format": "pt",
        **{group: origin.choices.get(group, "") for group in ("method", "backbone", "data")},
        "network": evaluated.network,
        "step": str(origin.step),
        "total_steps": str(origin.total_steps),
        "metrics": json.dumps(scores(evaluated)),
        "timm": json.dumps(timm),
        "image_size": str(inputs.size),
        "evaluation_crop": str(inputs.crop),
        "mean": json.dumps(inputs.mean),
        "std": json.dumps(inputs.std),
        "versions": json.dumps(dict(origin.versions)),
    }


def card(evaluated: Evaluated, *, loading: str) -> str:
    """Markdown.

    Args:
        evaluated: what was exported.
        loading: lines of Python that leave the network in `model`, and images [B, 3, S, S] to be embedded.
    """
    origin, inputs = evaluated.origin, evaluated.inputs
    method, backbone, data = (origin.choices.get(group, "?") for group in ("method", "backbone", "data"))
    rows = {
        "network": f"the {evaluated.network} of {method}: the one that the method evaluates",
        "backbone": f"{backbone}, embeddings of {evaluated.embed_dim} numbers: {_layer(evaluated)}",
        "data": data,
        "optimizer steps": f"{origin.step} of {origin.total_steps}",
        "images": f"RGB in [0, 1], shorter side resized to {round(inputs.size / inputs.crop)}, "
        f"central crop of {inputs.size} x {inputs.size} pixels",
        "normalisation": f"mean {_listed(inputs.mean)}, standard deviation {_listed(inputs.std)}",
        "versions": ", ".join(f"{name} {version}" for name, version in origin.versions.items()),
    }
    lines = [f"# {method}, {backbone}, {data}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {text} |" for name, text in rows.items()]
    lines += ["", *_notes(evaluated), "## Accuracy", ""]
    if scores(evaluated):
        lines += [
            "| metric | value |",
            "|---|---|",
            *(f"| {name} | {value:.4f} |" for name, value in scores(evaluated).items()),
        ]
    else:
        lines += ["The checkpoint was written before an evaluation."]
    lines += ["", "## Loading", "", "```python", loading, "```", ""]
    return "\n".join(lines)


def scores(evaluated: Evaluated) -> dict[str, float]:
    """What evaluations of the network have measured, by name."""
    return {name: value for name, value in sorted(evaluated.origin.metrics.items()) if name.startswith("val/")}


def _layer(evaluated: Evaluated) -> str:
    if evaluated.recipe.patch_size is None:
        return "the pooled features before the classifier"
    pooling = evaluated.recipe.arguments["global_pool"]
    layer = "the class token" if pooling == "token" else "the mean of the patch tokens"
    return f"{layer} after the last norm"


def _notes(evaluated: Evaluated) -> list[str]:
    notes = []
    if evaluated.recipe.stem == "cifar":
        notes += [
            "The stem is one for small images: a first convolution of 3x3 and stride 1 in place of 7x7 and stride 2, "
            "and no max-pooling. timm has no name for it, so the lines below replace both.",
            "",
        ]
    if evaluated.has_resampled_positions:
        positions, grid = evaluated.recipe.positions, evaluated.recipe.grid(evaluated.inputs.size)
        assert positions is not None, "they were resampled"
        notes += [
            f"Position embeddings were trained on a grid of {positions.grid[0]} x {positions.grid[1]} patches and are "
            f"resampled here to {grid[0]} x {grid[1]}, that of the evaluated images.",
            "",
        ]
    return notes


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
