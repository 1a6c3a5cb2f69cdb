"""Number formats under sharding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from lightning.pytorch.plugins import HalfPrecision, MixedPrecision, Precision
from torch.distributed.fsdp import MixedPrecisionPolicy

from spt.config.errors import ConfigError

Format = Literal["float32", "bfloat16"]

_DTYPES = {None: None, "float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class NumberFormats:
    """fully_shard's mixed-precision policy in words.

    Attributes:
        param_dtype: of gathered weights and of computation; None follows the precision of the run.
        reduce_dtype: of gradients while they are averaged; None for that of the computation.
        cast_forward_inputs: inputs of every unit are cast to param_dtype.
    """

    param_dtype: Format | None
    reduce_dtype: Format | None
    cast_forward_inputs: bool

    def __post_init__(self) -> None:
        """Refuses words that mean nothing.

        Raises:
            ConfigError: a format that does not exist or does not work.
        """
        for key, value in (("param_dtype", self.param_dtype), ("reduce_dtype", self.reduce_dtype)):
            if value not in _DTYPES:
                raise ConfigError(
                    f"strategy.mp_policy.{key}={value} is not a format that gradients survive without loss scaling; "
                    f"use strategy.mp_policy.{key}=bfloat16, float32 or null."
                )

    def policy(self, precision: str) -> MixedPrecisionPolicy:
        """The policy of inner units under a precision in Lightning's words: what they give stays in param_dtype."""
        param_dtype = _DTYPES[self.param_dtype]
        if param_dtype is None and precision == "bf16-mixed":
            param_dtype = torch.bfloat16
        return MixedPrecisionPolicy(
            param_dtype=param_dtype,
            reduce_dtype=_DTYPES[self.reduce_dtype],
            cast_forward_inputs=self.cast_forward_inputs,
        )


def of_root(policy: MixedPrecisionPolicy) -> MixedPrecisionPolicy:
    """The policy of an outermost unit: like its inner units, but its outputs are float32, for losses and averages."""
    if policy.param_dtype is None:
        return policy
    return MixedPrecisionPolicy(
        param_dtype=policy.param_dtype,
        reduce_dtype=policy.reduce_dtype,
        # on inner units it would feed float32 to the bfloat16 weights of what comes next
        output_dtype=torch.float32,
        cast_forward_inputs=policy.cast_forward_inputs,
    )


class ShardedMixedPrecision(Precision):
    """bf16-mixed without autocast: fully_shard casts float32 shards to bfloat16 as it gathers them."""

    precision = "bf16-mixed"


def sharded_precision(plugin: Precision | None) -> Precision | None:
    """Lightning's choice of precision as it has to be under sharding.

    Raises:
        ConfigError: float16, which needs loss scaling that does not know about shards.
    """
    if isinstance(plugin, (MixedPrecision, HalfPrecision)) and plugin.precision.startswith("16"):
        raise ConfigError(
            f"precision={plugin.precision} needs loss scaling, which does not work on sharded gradients; "
            "use precision=bf16-mixed with strategy=fsdp2."
        )
    return ShardedMixedPrecision() if isinstance(plugin, MixedPrecision) else plugin
