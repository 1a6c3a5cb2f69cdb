"""Features of a data set as files: in shards, so that a killed extraction goes on where it was."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from spt.checkpoint.folder import aside
from spt.checkpoint.reading import Tensors
from spt.config.errors import CheckpointError, ConfigError
from spt.data.images import ImageSet
from spt.data.module import ImageData
from spt.export.safetensors_file import write_safetensors
from spt.offline.embedder import Embedder, FeatureRows
from spt.reporting.atomic import write_text

# N images of the split, M of a shard, D features

logger = logging.getLogger(__name__)

MANIFEST = "features.json"
"""In a folder of shards: what they hold, written before the first of them."""

_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Extracted(NamedTuple):
    """What an extraction left.

    Attributes:
        num_images: of the split.
        num_shards: in all.
        num_skipped: shards that were there already.
    """

    num_images: int
    num_shards: int
    num_skipped: int


class ShardFormat(NamedTuple):
    """A kind of file.

    Attributes:
        suffix: of its name.
        write: writes rows of one choice of layers, in a type, under a name that appears once the file is whole.
    """

    suffix: str
    write: Callable[[Path, FeatureRows, str, torch.dtype], None]


def extract(
    embedder: Embedder,
    data: ImageData,
    *,
    split: str,
    folder: Path,
    shard_format: str,
    shard_size: int,
    dtype: str,
    identity: Mapping[str, object],
) -> Extracted:
    """Writes the features of one split, without augmentation, in the order of the data set.

    Shard i holds the images at positions [i shard_size, (i + 1) shard_size): `features` [M, D], `labels` [M] (below 0
    where an image has none) and `indices` [M], the positions; images that cannot be read and may be skipped are not
    there. A shard has its name only once it is whole; those that are there are not made again.

    Args:
        embedder: of one choice of layers.
        data: with the embedder's views attached.
        split: train | val.
        folder: of the shards.
        shard_format: safetensors | parquet.
        shard_size: images.
        dtype: float32 | float16 | bfloat16, of the features; parquet has no bfloat16.
        identity: what the features depend on, as plain values: a folder of other features is refused.

    Raises:
        ConfigError: a setting that does not exist, or a folder that holds other features.
        CheckpointError: a file cannot be written.
    """
    images, kind = _settings(data, split=split, shard_format=shard_format, shard_size=shard_size, dtype=dtype)
    num_images = len(images.labels)
    num_shards = -(-num_images // shard_size)
    names = [f"{number:05d}-of-{num_shards:05d}{kind.suffix}" for number in range(num_shards)]
    manifest = {
        **identity,
        "split": split,
        "features": embedder.features[0].name,
        "dtype": dtype,
        "num_images": num_images,
        "shard_size": shard_size,
        "shards": names,
    }
    _claim(folder, manifest)
    num_skipped = 0
    for number, name in enumerate(names):
        if (folder / name).is_file():
            num_skipped += 1
            continue
        rows = torch.arange(number * shard_size, min((number + 1) * shard_size, num_images))
        found = embedder.rows(data.evaluation_batches(images, rows))
        kind.write(folder / name, found, embedder.features[0].name, _TYPES[dtype])
        logger.info("%s: %d images", folder / name, len(found.labels))
    return Extracted(num_images, num_shards, num_skipped)


def _settings(
    data: ImageData, *, split: str, shard_format: str, shard_size: int, dtype: str
) -> tuple[ImageSet, ShardFormat]:
    if split not in ("train", "val"):
        raise ConfigError(f"split={split} does not exist; use split=train or split=val.")
    if shard_format not in FORMATS:
        raise ConfigError(f"format={shard_format} does not exist; use format={'|'.join(FORMATS)}.")
    if dtype not in _TYPES or (shard_format == "parquet" and dtype == "bfloat16"):
        raise ConfigError(f"dtype={dtype} cannot be written to {shard_format}; use dtype=float32 or dtype=float16.")
    if shard_size < 1:
        raise ConfigError(f"shard_size={shard_size}: a shard holds at least one image; use shard_size=4096.")
    return data.splits.train if split == "train" else data.splits.val, FORMATS[shard_format]


def _claim(folder: Path, manifest: Mapping[str, object]) -> None:
    """Says in the folder what it holds, or makes sure that it holds just that.

    Raises:
        ConfigError: it holds other features.
    """
    file = folder / MANIFEST
    if not file.is_file():
        write_text(file, json.dumps(manifest, indent=2) + "\n")
        return
    before = json.loads(file.read_text(encoding="utf-8"))
    now = json.loads(json.dumps(manifest))  # tuples become lists, as in the file
    different = [key for key in now if before.get(key) != now[key] and key != "shards"]
    if before != now:
        changes = ", ".join(f"{key}={before.get(key)} and not {now[key]}" for key in different)
        raise ConfigError(
            f"{folder} holds other features: {changes or 'of another version'}.\n"
            "    try: name=<another name>, or remove that folder"
        )


def _write_safetensors(path: Path, rows: FeatureRows, name: str, dtype: torch.dtype) -> None:
    columns: dict[str, Tensor] = {
        "features": rows.features[name].to("cpu", dtype),
        "labels": rows.labels.cpu(),
        "indices": rows.indices.cpu(),
    }
    shapes = {key: Tensors(column.shape, column.dtype) for key, column in columns.items()}
    write_safetensors(path, shapes, lambda key: columns[key], metadata={"format": "pt", "features": name})


def _write_parquet(path: Path, rows: FeatureRows, name: str, dtype: torch.dtype) -> None:
    try:
        import pyarrow  # the only format that needs it
        import pyarrow.parquet
    except ImportError:
        raise ConfigError(
            "format=parquet needs pyarrow, which is not installed; pip install -e '.[parquet]', or use "
            "format=safetensors."
        ) from None
    features = rows.features[name].to("cpu", dtype)  # [M, D]
    flat = pyarrow.array(features.reshape(-1).numpy())
    table = pyarrow.table(
        {
            "indices": rows.indices.cpu().numpy(),
            "labels": rows.labels.cpu().numpy(),
            "features": pyarrow.FixedSizeListArray.from_arrays(flat, features.shape[1]),
        }
    )
    written = aside(path)
    try:
        pyarrow.parquet.write_table(table, written)
        os.replace(written, path)
    except OSError as error:
        raise CheckpointError(f"{path} could not be written: {error.strerror}; use folder=<another one>.") from None
    finally:
        written.unlink(missing_ok=True)


FORMATS = {
    "safetensors": ShardFormat(".safetensors", _write_safetensors),
    "parquet": ShardFormat(".parquet", _write_parquet),
}
