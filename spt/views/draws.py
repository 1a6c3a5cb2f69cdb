"""Random numbers that are a function of what they are for, not of what was drawn before."""

from __future__ import annotations

import torch
from torch import Tensor

# B images per device

# Streams other than the views', which count from 0: two for each view.
ORDER_STREAM = -1  # of the images in an epoch
BLOCK_SIZE_STREAM = -2
BLOCK_PLACE_STREAM = -3
KEPT_TOKENS_STREAM = -4
BANK_STREAM = -5  # which training images k-NN searches
NETWORK_STREAM = -6  # what the networks draw, such as drop-path
HELD_OUT_STREAM = -7  # which training images choose among linear classifiers

_GOLDEN = 0x9E3779B97F4A7C15  # splitmix64's increment
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def uniform(seed: int, stream: int | Tensor, epochs: Tensor, indices: Tensor, count: int) -> Tensor:
    """Numbers in [0, 1), the same for the same (seed, stream, epoch, index), wherever they are drawn.

    An image's draws depend neither on its place in the batch nor on workers, ranks, device, or a resume.

    Args:
        seed: of the run.
        stream: what the numbers are for: unrelated uses take different ones. [P, 1], int64, for several at once.
        epochs: [B], int64, pass over the data of each image.
        indices: [B], int64, position of each image in its data set.
        count: numbers an image; more numbers begin with the same ones.

    Returns:
        [B, count], float32, multiples of 2^-24; [P, B, count] from several streams.
    """
    return _shift_right(hashes(seed, stream, epochs, indices, count), 40).float() * 2.0**-24


def hashes(seed: int, stream: int | Tensor, epochs: Tensor, indices: Tensor, count: int) -> Tensor:
    """The 64 random bits behind `uniform`: [B, count] or [P, B, count], int64.

    A chain of splitmix64's output function.
    Paper: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
    """
    counters = torch.arange(1, count + 1, device=indices.device)  # [count]
    base = torch.full((1,), _signed(seed * _GOLDEN), device=indices.device)
    keys = _mix(_mix(_mix(base + stream) + epochs) + indices)  # [B] or [P, B]
    return _mix(keys[..., None] + counters * _signed(_GOLDEN))  # [B, count] or [P, B, count]


def _mix(bits: Tensor) -> Tensor:
    bits = (bits ^ _shift_right(bits, 30)) * _signed(_FIRST)  # int64 products wrap, on every device
    bits = (bits ^ _shift_right(bits, 27)) * _signed(_SECOND)
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: Tensor, places: int) -> Tensor:
    """Shift that brings in zeros; torch's own brings in the sign."""
    return (bits >> places) & ((1 << (64 - places)) - 1)


def _signed(bits: int) -> int:
    """The int64 with the same low 64 bits."""
    return (bits + (1 << 63)) % (1 << 64) - (1 << 63)
