"""Projection and prediction heads of SimCLR, BYOL and DINO."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

# n rows (views x images), D embedding, P projection, K prototypes


class SimCLRHead(nn.Sequential):
    """Linear layers without bias, each followed by BatchNorm; ReLU between, the last BatchNorm without shift.

    [n, input_dim] to [n, output_dim]. Source: simclr model_util.py:141; arXiv 2006.10029 for three layers.
    """

    def __init__(self, input_dim: int, *, hidden_dim: int, output_dim: int, num_layers: int) -> None:
        widths = [input_dim, *[hidden_dim] * (num_layers - 1), output_dim]
        layers: list[nn.Module] = []
        for index in range(num_layers):
            last = index == num_layers - 1
            layers += [nn.Linear(widths[index], widths[index + 1], bias=False), nn.BatchNorm1d(widths[index + 1])]
            layers += [] if last else [nn.ReLU(inplace=True)]
        super().__init__(*layers)
        self[-1].bias.requires_grad_(False)  # the authors' center=False: the shift stays 0


class BYOLHead(nn.Sequential):
    """Linear, BatchNorm, ReLU, Linear without bias: BYOL's projector and predictor.

    [n, input_dim] to [n, output_dim]. Source: byol utils/networks.py:40; arXiv 2006.07733, section 3.3.
    """

    def __init__(self, input_dim: int, *, hidden_dim: int, output_dim: int) -> None:
        super().__init__(
            nn.Linear(input_dim, hidden_dim),
            nn.BatchNorm1d(hidden_dim),
            nn.ReLU(inplace=True),
            nn.Linear(hidden_dim, output_dim, bias=False),
        )


class DINOHead(nn.Module):
    """An MLP to a bottleneck on the unit sphere, then cosines with K prototypes.

    Args:
        input_dim: D.
        hidden_dim: width of the MLP's hidden layers.
        bottleneck_dim: width of the normalised bottleneck.
        num_prototypes: K.
        num_layers: linear layers of the MLP, the bottleneck's included.
        batch_norm: BatchNorm after every hidden Linear.
        freeze_norm: prototypes stay of unit length, so logits are cosines (the authors' norm_last_layer).

    [n, input_dim] to [n, num_prototypes]. Source: dino vision_transformer.py:257.
    """

    def __init__(
        self, input_dim: int, *, hidden_dim: int, bottleneck_dim: int, num_prototypes: int, num_layers: int,
        batch_norm: bool, freeze_norm: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        widths = [input_dim, *[hidden_dim] * (num_layers - 1), bottleneck_dim]
        layers: list[nn.Module] = []
        for index in range(num_layers):
            layers.append(nn.Linear(widths[index], widths[index + 1]))
            if index < num_layers - 1:
                layers += [nn.BatchNorm1d(hidden_dim), nn.GELU()] if batch_norm else [nn.GELU()]
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)
        self.mlp = nn.Sequential(*layers)
        # its directions keep torch's default initialisation, as the authors' do
        self.last_layer = weight_norm(nn.Linear(bottleneck_dim, num_prototypes, bias=False), dim=0)
        lengths = self.last_layer.parametrizations.weight.original0
        nn.init.ones_(lengths)
        lengths.requires_grad_(not freeze_norm)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Logits [n, K] of embeddings [n, D]."""
        # 1e-6 and float32: the authors' 1e-12 is zero in half precision
        bottleneck = F.normalize(self.mlp(embeddings).float(), dim=-1, eps=1e-6)  # [n, bottleneck]
        return self.last_layer(bottleneck.to(embeddings.dtype))  # [n, K]
