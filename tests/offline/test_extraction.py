"""Shards: what they hold, and that a killed extraction goes on."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from pathlib import Path

import pytest
import safetensors.torch
import torch

from spt.config.errors import ConfigError
from spt.offline import extraction
from spt.offline.extraction import Extracted, extract
from tests.offline.runs import data_of, embedder, trained

NAMES = [f"{number:05d}-of-00004.safetensors" for number in range(4)]


def run(
    source: Path, folder: Path, *, split: str = "val", shard_format: str = "safetensors", shard_size: int = 50,
    dtype: str = "float32",
) -> Extracted:  # fmt: skip
    data = data_of(source)
    made = embedder(source, "embedding", data=data)
    return extract(
        made, data, split=split, folder=folder, shard_format=shard_format, shard_size=shard_size, dtype=dtype,
        identity={"step": 4},
    )  # fmt: skip


def read(folder: Path) -> dict[str, torch.Tensor]:
    shards = [safetensors.torch.load_file(folder / name) for name in NAMES]
    return {key: torch.cat([shard[key] for shard in shards]) for key in shards[0]}


def test_shards_hold_every_image_once_in_the_order_of_the_data_set(tmp_path: Path) -> None:
    assert run(trained(), tmp_path) == Extracted(180, 4, 0)
    found, data = read(tmp_path), data_of(trained())
    assert found["indices"].tolist() == list(range(180))
    assert torch.equal(found["labels"], data.splits.val.labels)
    rows = embedder(trained(), "embedding", data=data).rows(data.val_dataloader()[1])
    torch.testing.assert_close(found["features"], rows.features["embedding"])


def extract_until_killed(source: Path, folder: Path) -> None:
    """Kills this process in the middle of the third file."""
    torch.set_num_threads(1)
    written = 0
    whole = os.replace

    def replace(old: Path, new: Path) -> None:
        nonlocal written
        if str(new).endswith(".safetensors"):
            written += 1
        if written == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        whole(old, new)

    os.replace = replace  # type: ignore[assignment]  # in a process that ends here
    run(source, folder)


def test_a_killed_extraction_goes_on_at_the_shard_that_it_was_writing(tmp_path: Path) -> None:
    source = trained()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.offline.runs"])
    process = context.Process(target=extract_until_killed, args=(source, tmp_path / "killed"))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    left = {path.name for path in (tmp_path / "killed").glob("*.safetensors")}
    assert left == set(NAMES[:2])
    before = {name: (tmp_path / "killed" / name).stat().st_mtime_ns for name in left}
    assert run(source, tmp_path / "killed") == Extracted(180, 4, 2)
    assert before == {name: (tmp_path / "killed" / name).stat().st_mtime_ns for name in left}
    run(source, tmp_path / "whole")
    for name in NAMES:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == [*NAMES, extraction.MANIFEST]


def test_a_folder_of_other_features_is_refused(tmp_path: Path) -> None:
    run(trained(), tmp_path)
    with pytest.raises(ConfigError, match="shard_size=50 and not 60"):
        run(trained(), tmp_path, shard_size=60)
    with pytest.raises(ConfigError, match="split=val and not train"):
        run(trained(), tmp_path, split="train")


def test_parquet_holds_the_same_numbers(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    run(trained(), tmp_path / "a")
    run(trained(), tmp_path / "b", shard_format="parquet", dtype="float16")
    expected = read(tmp_path / "a")
    table = parquet.read_table(tmp_path / "b" / "00001-of-00004.parquet")
    assert table["indices"].to_pylist() == expected["indices"][50:100].tolist()
    assert table["labels"].to_pylist() == expected["labels"][50:100].tolist()
    features = torch.tensor(table["features"].to_pylist())
    torch.testing.assert_close(features.float(), expected["features"][50:100], atol=1e-2, rtol=1e-2)
    assert json.loads((tmp_path / "b" / extraction.MANIFEST).read_text())["dtype"] == "float16"


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ({"split": "test"}, "split=val"),
        ({"shard_format": "csv"}, "format=safetensors"),
        ({"shard_size": 0}, "shard_size=4096"),
        ({"dtype": "int8"}, "dtype=float16"),
        ({"dtype": "bfloat16", "shard_format": "parquet"}, "dtype=float16"),
    ],
)
def test_settings_that_do_not_exist_are_refused(tmp_path: Path, setting: dict[str, str], advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        run(trained(), tmp_path, **setting)  # type: ignore[arg-type]
