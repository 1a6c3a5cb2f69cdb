"""Networks as programs that need no Python source: TorchScript and torch.export."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from spt.config.errors import CheckpointError
from spt.export.evaluated import Evaluated

# B images


def write_torchscript(evaluated: Evaluated, path: Path) -> None:
    """Traces images [B, 3, S, S] to embeddings [B, D]; read back with torch.jit.load. torch 2.14 advises torch.export.

    Raises:
        CheckpointError: it could not be written, or gives other embeddings.
    """
    network, images = evaluated.build(), example(evaluated)
    with warnings.catch_warnings(), torch.no_grad():
        # torch advises against its own tracer; sizes that become constants are those of S alone, as checked below
        warnings.filterwarnings("ignore", message=r"`torch\.jit")
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        program = torch.jit.trace(network, images, check_trace=False)
        _publish(path, lambda file: program.save(str(file)))
        _check(network, torch.jit.load(path), evaluated, path)


def write_exported(evaluated: Evaluated, path: Path) -> None:
    """The same with torch.export, for any B; read back with torch.export.load(path).module().

    Raises:
        CheckpointError: it could not be written, or gives other embeddings.
    """
    network, images = evaluated.build(), example(evaluated)
    batch = {0: torch.export.Dim("batch", min=1, max=2**16)}
    with torch.no_grad():
        program = torch.export.export(network, (images,), dynamic_shapes=(batch,))
        _publish(path, lambda file: torch.export.save(program, file))
        _check(network, torch.export.load(path).module(), evaluated, path)


def example(evaluated: Evaluated, images: int = 2) -> Tensor:
    """Noise in the size of the evaluated images, [B, 3, S, S], the same every time."""
    size = evaluated.inputs.size
    return torch.randn(images, 3, size, size, generator=torch.Generator().manual_seed(0))


def _publish(path: Path, write: Callable[[Path], None]) -> None:
    written = path.with_name(f"{path.stem}.tmp{path.suffix}")  # the same ending, of which torch.export makes much
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(written)
        os.replace(written, path)
    except (OSError, RuntimeError) as error:
        raise CheckpointError(f"{path} could not be written: {error}; use output=<another file>.") from None
    finally:
        written.unlink(missing_ok=True)


def _check(network: nn.Module, program: Callable[[Tensor], object], evaluated: Evaluated, path: Path) -> None:
    """Of another number of images than it was made with."""
    images = example(evaluated, images=5)
    expected, found = network(images), cast(Tensor, program(images))
    if not torch.allclose(expected, found, atol=1e-4, rtol=1e-4):
        difference = float((expected - found).abs().max())
        raise CheckpointError(f"{path} gives embeddings that differ from the network's by up to {difference:.1e}.")
