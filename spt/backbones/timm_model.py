"""Any model of timm as a backbone."""

from __future__ import annotations

from typing import Literal, cast

import timm
from timm.models.vision_transformer import VisionTransformer as TimmVisionTransformer
from torch import Tensor, nn

from spt.backbones.backbone import Backbone
from spt.backbones.layout import MemoryFormat, check_memory_format, laid_out
from spt.backbones.recipe import TimmRecipe
from spt.backbones.vit import TokenTransformer
from spt.config.errors import ConfigError
from spt.types import Features

_TIMM_STD = 0.02  # of the weights of timm's vision transformers


class PooledBackbone(Backbone):
    """A timm model that gives one vector an image and no tokens.

    Attributes:
        network: the timm model, without classifier.
    """

    def __init__(self, network: nn.Module, recipe: TimmRecipe, memory_format: MemoryFormat) -> None:
        super().__init__()
        self.memory_format = memory_format
        self.network = network
        self._recipe = recipe
        self.embed_dim = cast(int, network.num_features)

    def forward(self, images: Tensor) -> Features:
        """Embeddings [B, D] of images [B, 3, H, W]; no tokens."""
        return Features(self.network(laid_out(images, self.memory_format)), None)

    def recipe(self) -> TimmRecipe:
        """The call that built it."""
        return self._recipe


def timm_backbone(
    *,
    name: str,
    pretrained: bool,
    drop_path: float,
    options: dict[str, object],
    patch_size: int | None = None,
    class_token: bool | None = None,
    positions: Literal["sincos"] | None = None,
    patch_embed_init: Literal["truncated_normal"] | None = None,
    memory_format: MemoryFormat = "auto",
) -> TokenTransformer | PooledBackbone:
    """A backbone from a timm name.

    Args:
        name: as `timm.list_models()` has it.
        pretrained: True starts from timm's weights, downloaded once.
        drop_path: rate of stochastic depth at the last block; the teacher has none.
        options: further arguments of the timm model, such as img_size.
        patch_size: pixels of a patch's side. None leaves it, and each of the next three, as the model has it.
        class_token: of plain ViTs; False: they have none, and embeddings are the mean of the patches (I-JEPA).
        positions: of plain ViTs; "sincos": fixed sines and cosines (I-JEPA).
        patch_embed_init: of plain ViTs; "truncated_normal": of deviation .02, as timm's other weights (I-JEPA).
        memory_format: of the activations of models that give no tokens: auto | channels_last | contiguous.

    Returns:
        Plain ViTs give embeddings and tokens and take crops of any size; all other models give embeddings only, of
        the sizes that the model takes.

    Raises:
        ConfigError: timm has no such model, or the model does not take an option or a form.
    """
    check_memory_format(memory_format)
    form = {"class_token": class_token, "positions": positions, "patch_embed_init": patch_embed_init}
    given = [f"backbone.{key}" for key, value in form.items() if value is not None]
    if pretrained and given:
        raise ConfigError(
            f"backbone.pretrained=true brings weights of the model as it is, and {', '.join(given)} would change it; "
            f"use {' '.join(f'{key}=null' for key in given)}, or backbone.pretrained=false."
        )
    if patch_size is not None:
        options = {"patch_size": patch_size, **options}
    if class_token is not None:
        pooling = "token" if class_token else "avg"  # after the norm of all tokens, not before one of its own
        options = {**options, "class_token": class_token, "global_pool": pooling, "fc_norm": False}
    network = _created(name, pretrained=pretrained, num_classes=0, drop_path_rate=drop_path, **options)
    backbone = wrapped(network, TimmRecipe(name, {"num_classes": 0, **options}), memory_format)
    if given and not isinstance(backbone, TokenTransformer):
        raise ConfigError(
            f"backbone.name={name} is no plain vision transformer, which alone takes {', '.join(given)}; use one whose "
            f"name starts with vit_, or {' '.join(f'{key}=null' for key in given)}."
        )
    if isinstance(backbone, TokenTransformer) and positions == "sincos":
        backbone.fix_positions()
    if isinstance(backbone, TokenTransformer) and patch_embed_init == "truncated_normal":
        backbone.initialise_patches(_TIMM_STD)
    return backbone


def _created(name: str, **arguments: object) -> nn.Module:
    if not timm.is_model(name):
        close = timm.list_models(f"*{name.split('_')[0].split('.')[0]}*")[:5]
        raise ConfigError(
            f"backbone.name={name} is not a model of timm {timm.__version__}; "
            f"{'close ones: ' + ', '.join(close) if close else 'see timm.list_models()'}. "
            f"Type backbone.name=<one of them>."
        )
    try:
        return cast(nn.Module, timm.create_model(name, **arguments))  # type: ignore[arg-type]
    except TypeError as error:
        foreign = [f"backbone.{key}" for key in ("patch_size", "class_token") if f"'{key}'" in str(error)]
        raise ConfigError(
            f"backbone.name={name} does not take {foreign[0]}, which plain vision transformers do and I-JEPA asks for; "
            f"use one whose name starts with vit_, or {foreign[0]}=null."
            if foreign
            else f"backbone.name={name} does not take an argument it was given: {error}. "
            f"Remove it from backbone.options, or choose another model."
        ) from error


def wrapped(
    network: nn.Module, recipe: TimmRecipe, memory_format: MemoryFormat = "auto"
) -> TokenTransformer | PooledBackbone:
    """A timm model as a backbone; plain ViTs give tokens.

    Args:
        network: without classifier.
        recipe: that built it.
        memory_format: of activations, where it gives no tokens.
    """
    if type(network) is TimmVisionTransformer:
        return TokenTransformer(network, recipe)
    return PooledBackbone(network, recipe, memory_format)
