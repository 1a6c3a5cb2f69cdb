"""A backbone that starts from weights that are there already."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

from spt.backbones.backbone import Backbone
from spt.backbones.recipe import Positions
from spt.backbones.vit import TokenTransformer
from spt.config.errors import ConfigError
from spt.pretrained.files import read_weights
from spt.pretrained.fitting import Fitted, fit

logger = logging.getLogger(__name__)


def start_from(backbone: Backbone, path: Path) -> Fitted:
    """Fills a backbone, before a method copies it for its teacher.

    Args:
        backbone: whose `network` is a timm model.
        path: see `read_weights`.

    Returns:
        What was used, and what was left out.

    Raises:
        CheckpointError: the file cannot be read.
        ConfigError: it is of another network; lists every tensor that does not fit.
    """
    network = dict(backbone.named_children()).get("network")
    if network is None:
        raise ConfigError(
            f"backbone.init_from fills backbones that are timm models, and {type(backbone).__name__} has no network; "
            "use backbone.init_from=null."
        )
    weights = read_weights(path)
    positions = None
    if isinstance(backbone, TokenTransformer) and backbone.network.pos_embed is not None:
        positions = Positions(backbone.num_position_prefix, backbone.reference_grid)
    fitted = fit(weights.tensors, network, positions, source=f"backbone.init_from={path}")
    network.load_state_dict(fitted.tensors, strict=True)
    logger.info(_line(path, weights.source, fitted))
    return fitted


def _line(path: Path, source: str, fitted: Fitted) -> str:
    words = [f"backbone starts from {path} ({source}): {len(fitted.tensors)} tensors"]
    if fitted.left_out:
        parts = Counter(name.partition(".")[0] for name in fitted.left_out)
        words.append("left out " + ", ".join(f"{name} ({count})" for name, count in parts.items()))
    if fitted.resampled is not None:
        old, new = fitted.resampled
        words.append(f"positions resampled from {old[0]} x {old[1]} to {new[0]} x {new[1]} patches")
    return "; ".join(words)
