"""safetensors files written one tensor at a time: https://github.com/huggingface/safetensors, "Format"."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from spt.checkpoint.folder import aside
from spt.checkpoint.reading import Tensors
from spt.config.errors import CheckpointError

_CODES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


def write_safetensors(
    path: Path, tensors: Mapping[str, Tensors], read: Callable[[str], Tensor], *, metadata: Mapping[str, str]
) -> None:
    """Writes tensors of known shapes, holding one of them at a time.

    Args:
        path: the file; it appears under this name once it is complete.
        tensors: what will be written, by name.
        read: gives a tensor by name.
        metadata: for the header.

    Raises:
        CheckpointError: it could not be written.
    """
    written = aside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(written, tensors, read, metadata)
        os.replace(written, path)
    except OSError as error:
        raise CheckpointError(f"{path} could not be written: {error.strerror}; use output=<another file>.") from None
    finally:
        written.unlink(missing_ok=True)


def _write(
    path: Path, tensors: Mapping[str, Tensors], read: Callable[[str], Tensor], metadata: Mapping[str, str]
) -> None:
    # wide types first, as the format's own writer has it: then every tensor begins at a multiple of its type
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        shape, dtype = tensors[name]
        begin, end = end, end + shape.numel() * dtype.itemsize
        header[name] = {"dtype": _CODES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            tensor = read(name)
            assert (tensor.shape, tensor.dtype) == tuple(tensors[name]), name
            file.write(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        file.flush()
        os.fsync(file.fileno())
