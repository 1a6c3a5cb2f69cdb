"""What it costs to open a large image folder, to read its images, and to hold its list in data workers.

    python scripts/bench_data.py
    python scripts/bench_data.py --files 1000000 --images 400

Lists are of empty files in a temporary folder, listed afresh and from the index in turns; the file system's own cache
is warm, so that a first look at a disk or a file server costs more than is shown. Images are JPEGs of noise with the
spectrum of photographs, read and cropped by one process as a data worker does it; with views.made_on=worker it makes
all of the views, colours too, which the device does otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.timing import Cell, middle, ratio, report, take_turns
from spt.config.build import build_module
from spt.data.files import FileImages
from spt.data.images import Key
from spt.data.sources.image_folder import ImageFolder
from spt.views.views import Views

_CLASSES = 1000
_ROLLUP = Path("/proc/self/smaps_rollup")  # Linux
_SIZES = ((500, 375), (2000, 1500))  # width, height
_DECODED = {"whole": None, "reduced_decoding=2": 2.0, "reduced_decoding=1": 1.0}
_QUALITY = 95
_GRAIN = 10  # levels of 255: files of 500 x 375 pixels are then as large as ImageNet's, 110 KiB


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=200_000, help="files of the listed folder")
    parser.add_argument("--images", type=int, default=64, help="images of each size that are read in a lap")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=["simclr", "dino"], help="whose views are cut")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        report("data_listing", "opening a folder of images", _listing(Path(folder), arguments.files, arguments.rounds))
    with TemporaryDirectory() as folder:
        rows = _reading(Path(folder), arguments.images, arguments.rounds, arguments.methods)
        report("data_reading", f"reading JPEGs (quality {_QUALITY}) and cutting their views, one process", rows)


def _listing(root: Path, num_files: int, rounds: int) -> list[dict[str, Cell]]:
    """Seconds to open, and memory that a forked worker makes its own by looking at every path."""
    for place in range(_CLASSES):
        (root / "train" / f"n{place:08}").mkdir(parents=True)
    for place in range(num_files):
        name = f"n{place % _CLASSES:08}"
        (root / "train" / name / f"{name}_{place}.JPEG").touch()
    (root / "val" / "n00000000").mkdir(parents=True)
    (root / "val" / "n00000000" / "0.JPEG").touch()
    time.sleep(2.5)  # until the folders count as settled
    fresh, kept = (_source(root, index) for index in (None, str(root / "index")))
    contestants: dict[str, Callable[[], object]] = {"list every folder": fresh.load, "read the index": kept.load}
    begun = time.perf_counter()
    kept.prepare()
    first = time.perf_counter() - begun
    laps = take_turns(contestants, rounds=rounds, steps=1)
    rows: list[dict[str, Cell]] = []
    for name in contestants:
        times = middle(laps[name])
        rows.append(
            {
                "how": name,
                "files": num_files,
                "classes": _CLASSES,
                "seconds": times.clock,
                "s per million": times.clock * 1e6 / num_files,
                "by processor": times.processor * 1e6 / num_files,
                "times the fresh one": 1 / ratio(laps[name], laps["list every folder"]).clock,
            }
        )
    written = {"how": "list and write the index", "files": num_files, "classes": _CLASSES, "seconds": first}
    rows.append({**written, "s per million": first * 1e6 / num_files})
    kinds = ("tensors", "strings") if _ROLLUP.exists() else ()
    held = {kind: _in_a_fresh_process(_private_memory, root, kind) for kind in kinds}
    return [*rows, *({"how": f"paths as {kind}", "files": num_files, "MiB a worker": held[kind]} for kind in held)]


def _source(root: Path, index: str | None) -> ImageFolder:
    return ImageFolder(root=str(root), index=index, reduced_decoding=None, on_unreadable="stop", verify=False)


def _in_a_fresh_process(measure: Callable[[Path, str], float], root: Path, kind: str) -> float:
    """Not where folders were listed: freed memory is written to when it is used again."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, root, kind).result()


def _private_memory(root: Path, kind: str) -> float:
    """MiB that a forked process holds for itself after looking at every path, beyond what it held before."""
    paths: Sequence[str] = _source(root, str(root / "index")).load().train.paths
    if kind == "strings":
        paths = list(paths)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = _unshared()
        for path in paths:
            len(path)
        os.write(writing, str(_unshared() - before).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(reading, 32)) / 1024


def _unshared() -> int:
    """KiB of this process that no other shares."""
    lines = _ROLLUP.read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def _reading(folder: Path, num_images: int, rounds: int, methods: list[str]) -> list[dict[str, Cell]]:
    """Images a second at each way of decoding."""
    rows: list[dict[str, Cell]] = []
    for width, height in _SIZES:
        files = [_photograph(folder / f"{width}-{seed}.jpg", width, height, seed) for seed in range(8)]
        paths = [str(files[place % len(files)]) for place in range(num_images)]
        for method in methods:
            ours, torchvisions = (_views(method, made_on, folder) for made_on in ("device", "worker"))
            contestants = {name: _reader(paths, ours, least) for name, least in _DECODED.items()}
            contestants["whole, views by torchvision"] = _reader(paths, torchvisions, None)
            laps = take_turns(contestants, rounds=rounds, steps=1)
            for name in contestants:
                times = middle(laps[name])
                rows.append(
                    {
                        "pixels": f"{width}x{height}",
                        "KiB": round(sum(file.stat().st_size for file in files) / len(files) / 1024),
                        "views of": method,
                        "decoded": name,
                        "images/s": num_images / times.clock,
                        "by processor": num_images / times.processor,
                        "times the whole": 1 / ratio(laps[name], laps["whole"]).processor,
                    }
                )
    return rows


def _views(method: str, made_on: str, folder: Path) -> Views:
    data = ["data=image_folder", f"data.source.root={folder}"]
    return build_module(spt.compose(f"method={method}", "backbone=vit_tiny", f"views.made_on={made_on}", *data)).views


def _reader(paths: list[str], views: Views, pixel_ratio: float | None) -> Callable[[], object]:
    """Reads one micro-batch; another one every time."""
    labels = torch.zeros(len(paths), dtype=torch.int64)
    files = FileImages(paths, labels, reduced_decoding=pixel_ratio, on_unreadable="stop")
    epochs = count()
    return lambda: files.training_sample([Key(next(epochs), row) for row in range(len(paths))], views)


def _photograph(file: Path, width: int, height: int, seed: int) -> Path:
    """A JPEG of noise whose detail weakens with its fineness, as in photographs."""
    generator = np.random.default_rng(seed)
    pixels = np.zeros((height, width, 3))
    for cells in (2, 4, 8, 16, 32, 64, 128, 256):
        grid = generator.integers(256, size=(max(1, cells * height // width), cells, 3), dtype=np.uint8)
        pixels += np.asarray(Image.fromarray(grid).resize((width, height), Image.Resampling.BICUBIC)) / cells**0.7
    pixels *= 255 / pixels.max()
    pixels += generator.normal(0, _GRAIN, pixels.shape)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, quality=_QUALITY)
    return file


if __name__ == "__main__":
    main()
