"""BatchNorm over the images of all processes."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from timm.layers import BatchNormAct2d
from torch import Tensor, nn

from spt.config.errors import ConfigError
from spt.distributed.gather import gather_rows, world_size

# B images per device, C channels

_KNOWN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, BatchNormAct2d)


class BatchNorm(nn.Module):
    """BatchNorm for vectors and maps, with statistics in float32 whatever the precision of its input.

    It takes over the parameters and running statistics of torch's layer under the same names, so that checkpoints do
    not know which of the two wrote them. Unlike torch's SyncBatchNorm it runs on CPUs and inside fully_shard.

    Args:
        layer: what it replaces.
        across_ranks: True: statistics of the images of all processes, so that W processes equal one with the whole
            batch, gradients included; False: of this process's images.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(self, layer: nn.modules.batchnorm._BatchNorm, *, across_ranks: bool) -> None:
        super().__init__()
        self.eps = layer.eps
        self.momentum = layer.momentum
        self.across_ranks = across_ranks
        self.register_parameter("weight", layer.weight)
        self.register_parameter("bias", layer.bias)
        self.register_buffer("running_mean", layer.running_mean)
        self.register_buffer("running_var", layer.running_var)
        self.register_buffer("num_batches_tracked", layer.num_batches_tracked)
        self.training = layer.training

    def forward(self, images: Tensor) -> Tensor:
        """[B, C] or [B, C, ...] in any floating type to the same."""
        uses_batch = self.training or self.running_mean is None
        share = self._share() if self.training else 0.0
        if uses_batch and self.across_ranks and world_size() > 1:
            return self._over_ranks(images.float(), share).to(images.dtype)
        # fully_shard may gather weights in half precision, where statistics are float32; kernels want the two alike
        like = torch.float32 if self.running_mean is None else self.running_mean.dtype
        weight, bias = (None if p is None else p.to(like) for p in (self.weight, self.bias))
        return F.batch_norm(
            images, self.running_mean, self.running_var, weight, bias, uses_batch, share, self.eps
        )  # fmt: skip

    def _share(self) -> float:
        """What the running statistics take over of this batch's; counts the batch."""
        if self.num_batches_tracked is None:
            return 0.0
        self.num_batches_tracked += 1
        # without momentum, a plain mean over all batches so far
        return 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum

    def _over_ranks(self, rows: Tensor, share: float) -> Tensor:
        mean, variance, count = _statistics_over_ranks(rows)  # [C], [C], [1]
        if share:
            self._follow(mean, variance * count / (count - 1), share)
        scale = torch.rsqrt(variance + self.eps)  # [C]
        if self.weight is not None:
            scale = scale * self.weight.float()
        shape = [1, -1] + [1] * (rows.ndim - 2)
        normalised = (rows - mean.view(shape)) * scale.view(shape)
        return normalised if self.bias is None else normalised + self.bias.float().view(shape)

    @torch.no_grad()
    def _follow(self, mean: Tensor, unbiased_variance: Tensor, share: float) -> None:
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
            self.running_var.lerp_(unbiased_variance.to(self.running_var.dtype), share)

    def extra_repr(self) -> str:
        """What printing a network shows."""
        width = None if self.weight is None else len(self.weight)
        return f"{width}, eps={self.eps}, momentum={self.momentum}, across_ranks={self.across_ranks}"


class BatchNormAct(BatchNorm):
    """The same, followed by the dropout and activation that timm's convolutional networks keep inside the layer.

    Args:
        layer: what it replaces.
        across_ranks: as for BatchNorm.
    """

    def __init__(self, layer: BatchNormAct2d, *, across_ranks: bool) -> None:
        super().__init__(layer, across_ranks=across_ranks)
        self.drop = layer.drop
        self.act = layer.act

    def forward(self, images: Tensor) -> Tensor:
        """[B, C, H, W] to the same."""
        return cast(Tensor, self.act(self.drop(super().forward(images))))


def _statistics_over_ranks(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean [C], biased variance [C] and count [1] of the rows [B, C, ...] of all processes, in one collective.

    Every process gives its own mean and squared deviations from it, which add up without the cancellation that sums
    of squares suffer from. Paper: Chan, Golub and LeVeque, Updating formulae for computing sample variances, 1979.
    """
    channels = rows.shape[1]
    axes = [axis for axis in range(rows.ndim) if axis != 1]
    variance, mean = torch.var_mean(rows, axes, correction=0)  # [C] each
    count = rows.new_full((1,), rows.numel() / channels)
    gathered = gather_rows(torch.cat([mean, variance * count, count])[None])  # [W, 2C + 1]
    means, deviations, counts = gathered.split([channels, channels, 1], dim=1)  # [W, C], [W, C], [W, 1]
    total = counts.sum(0)  # [1]
    mean = (means * counts).sum(0) / total
    between = ((means - mean).square() * counts).sum(0)
    return mean, (deviations.sum(0) + between) / total, total


def replace_batch_norm(root: nn.Module, *, across_ranks: bool) -> None:
    """Puts this file's layers in the place of torch's and timm's below `root`, keeping every state-dict key.

    Parameters and buffers stay the same objects: what is frozen stays frozen. Layers replaced before are left alone.

    Raises:
        ConfigError: a BatchNorm of another class, whose forward this would change.
    """
    for name, child in list(root.named_children()):
        if type(child) is BatchNormAct2d:
            setattr(root, name, BatchNormAct(child, across_ranks=across_ranks))
        elif type(child) in _KNOWN:
            assert isinstance(child, nn.modules.batchnorm._BatchNorm)
            setattr(root, name, BatchNorm(child, across_ranks=across_ranks))
        elif isinstance(child, nn.modules.batchnorm._BatchNorm):
            raise ConfigError(
                f"{name} is a {type(child).__name__}, and only torch's BatchNorm and timm's BatchNormAct2d can be "
                "replaced by one over all devices; use batch_norm=local with precision=32-true, or another backbone."
            )
        else:
            replace_batch_norm(child, across_ranks=across_ranks)
