"""ResNets of timm, with a stem for small images."""

from __future__ import annotations

from typing import ClassVar, Literal, cast

import timm
from torch import Tensor, nn

from spt.backbones.backbone import Backbone
from spt.backbones.layout import MemoryFormat, check_memory_format, laid_out
from spt.backbones.recipe import TimmRecipe, replace_stem
from spt.types import Features


class ResNet(Backbone):
    """A timm ResNet up to its global average pooling.

    Args:
        name: any ResNet of timm, "resnet18" or "resnet50".
        stem: "imagenet": 7x7 convolution of stride 2 and max-pooling; "cifar": 3x3 of stride 1 and no pooling, for
            images of about 32 pixels (SimCLR, arXiv 2002.05709, appendix B.9).
        zero_init_last: the last BatchNorm weight of every residual block starts at 0 (arXiv 1706.02677, section 5.1).
        drop_path: rate at the last block, growing linearly from 0 at the first; the teacher has none.
        memory_format: of activations: auto | channels_last | contiguous.

    Attributes:
        network: the timm model; its state dict is what timm loads (with stem=cifar, into a model whose stem was
            changed alike).
    """

    has_batch_norm: ClassVar[bool] = True

    def __init__(
        self, *, name: str, stem: Literal["imagenet", "cifar"], zero_init_last: bool, drop_path: float,
        memory_format: MemoryFormat = "auto",
    ) -> None:  # fmt: skip
        super().__init__()
        check_memory_format(memory_format)
        self.memory_format = memory_format
        self.name = name
        self.stem = stem
        self.network = timm.create_model(name, num_classes=0, zero_init_last=zero_init_last, drop_path_rate=drop_path)
        self.embed_dim = cast(int, self.network.num_features)
        if stem == "cifar":
            convolution = replace_stem(self.network)
            nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Features:
        """Embeddings [B, D], averaged over the last feature map, of images [B, 3, H, W]; no tokens."""
        return Features(self.network(laid_out(images, self.memory_format)), None)

    def recipe(self) -> TimmRecipe:
        """The model of that name, with the stem changed alike."""
        return TimmRecipe(self.name, {"num_classes": 0}, stem="cifar" if self.stem == "cifar" else "as_in_timm")
