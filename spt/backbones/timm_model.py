"""Any model of timm as a backbone."""

from __future__ import annotations

from typing import cast

import timm
from timm.models.vision_transformer import VisionTransformer as TimmVisionTransformer
from torch import Tensor, nn

from spt.backbones.backbone import Backbone
from spt.backbones.layout import MemoryFormat, check_memory_format, laid_out
from spt.backbones.recipe import TimmRecipe
from spt.backbones.vit import TokenTransformer
from spt.config.errors import ConfigError
from spt.types import Features


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
    *, name: str, pretrained: bool, drop_path: float, options: dict[str, object], memory_format: MemoryFormat = "auto"
) -> TokenTransformer | PooledBackbone:
    """A backbone from a timm name.

    Args:
        name: as `timm.list_models()` has it.
        pretrained: True starts from timm's weights, downloaded once.
        drop_path: rate of stochastic depth at the last block; the teacher has none.
        options: further arguments of the timm model, such as img_size.
        memory_format: of the activations of models that give no tokens: auto | channels_last | contiguous.

    Returns:
        Plain ViTs give embeddings and tokens and take crops of any size; all other models give embeddings only, of
        the sizes that the model takes.

    Raises:
        ConfigError: timm has no such model, or the model does not take an option.
    """
    check_memory_format(memory_format)
    if not timm.is_model(name):
        close = timm.list_models(f"*{name.split('_')[0].split('.')[0]}*")[:5]
        raise ConfigError(
            f"backbone.name={name} is not a model of timm {timm.__version__}; "
            f"{'close ones: ' + ', '.join(close) if close else 'see timm.list_models()'}. "
            f"Type backbone.name=<one of them>."
        )
    try:
        network = timm.create_model(name, pretrained=pretrained, num_classes=0, drop_path_rate=drop_path, **options)  # type: ignore[arg-type]
    except TypeError as error:
        raise ConfigError(
            f"backbone.name={name} does not take an argument it was given: {error}. "
            f"Remove it from backbone.options, or choose another model."
        ) from error
    return wrapped(network, TimmRecipe(name, {"num_classes": 0, **options}), memory_format)


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
