"""Small batches and backbones for tests of methods."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from spt.backbones.vit import VisionTransformer
from spt.types import Batch, Features, Masks


def tiny_vit(**changes: object) -> VisionTransformer:
    sizes = {
        "image_size": 12, "patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2, "mlp_ratio": 2.0,
        "class_token": True,
        "positions": "learned", "init_std": 0.02, "patch_embed_init": "default", "drop_path": 0.0,
    }  # fmt: skip
    return VisionTransformer(**{**sizes, **changes})


class TinyConvNet(nn.Module):
    """A convolution and BatchNorm, then the mean over the map."""

    embed_dim = 10

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 10, 3), nn.BatchNorm2d(10), nn.ReLU())

    def forward(self, images: Tensor) -> Features:
        return Features(self.layers(images).mean((2, 3)), None)


def batch(num_global: int = 2, num_local: int = 0, size: int = 12, images: int = 5, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    global_views = [torch.randn(images, 3, size, size, generator=generator) for _ in range(num_global)]
    local_views = [torch.randn(images, 3, 8, 8, generator=generator) for _ in range(num_local)]
    return Batch(global_views, local_views)


def masked_batch(images: int = 5, seed: int = 0) -> Batch:
    """One view on a grid of 3 x 3 patches, four tokens of context, two blocks of two targets."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.stack([torch.randperm(9, generator=generator) for _ in range(images)])  # [B, N]
    targets = torch.stack([order[:, 4:6], order[:, 6:8]])
    return batch(num_global=1, images=images, seed=seed)._replace(masks=Masks(order[:, :4].sort(1).values, targets))
