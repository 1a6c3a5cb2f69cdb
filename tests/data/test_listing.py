from __future__ import annotations

import logging
import os
import pickle
import shutil
import threading
import time
from pathlib import Path

import pytest
import torch

from spt.data.listing import FilePaths, index_file, read_listing
from spt.data.sources.image_folder import ImageFolder
from tests.data.sets import cut_short

ENDINGS = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".ppm", ".pgm", ".tif", ".tiff")
LONG_AGO = time.time() - 1000


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three classes, one of them without validation images and one without any; a clock that counts ten seconds on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    touch(tmp_path / "images", "train/cat/b.png", "train/cat/a.JPG", "train/cat/notes.txt", "train/dog/\udcff.png")
    touch(tmp_path / "images", "train/dog/\u00e4.png", "train/eel/x.txt", "val/cat/c.png", "val/eel/z.jpeg")
    settle(monkeypatch)
    return tmp_path / "images"


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets folders that have just been made count as old."""
    monkeypatch.setattr("spt.data.listing._SETTLED_AFTER", 0)
    time.sleep(0.02)  # more than a tick of the file system's clock


def source(root: Path, index: str | None = "auto", *, verify: bool = False) -> ImageFolder:
    return ImageFolder(root=str(root), index=index, reduced_decoding=None, on_unreadable="skip", verify=verify)


def contents(root: Path, index: str | None = "auto") -> list[tuple[list[str], list[int]]]:
    splits = source(root, index).load()
    return [(list(images.paths), images.labels.tolist()) for images in (splits.train, splits.val)]


def listed(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the folders that a start looks into, beside those that hold the classes."""
    looked: list[str] = []
    scan = os.scandir

    def note(folder: Path) -> object:
        looked.append(str(Path(folder).relative_to(root)))
        return scan(folder)

    monkeypatch.setattr(os, "scandir", note)
    source(root).prepare()
    source(root).load()
    monkeypatch.setattr(os, "scandir", scan)
    return [name for name in looked if name not in ("train", "val")]


def index_of(root: Path, split: str = "train") -> Path:
    return index_file("auto", root / split)


def test_listing_is_every_class_folder_in_order(root: Path) -> None:
    (train, labels), (val, val_labels) = contents(root, None)
    names = ["train/cat/a.JPG", "train/cat/b.png", "train/dog/\u00e4.png", "train/dog/\udcff.png"]
    assert train == [str(root / name) for name in names]
    assert labels == [0, 0, 1, 1]
    assert (val, val_labels) == ([str(root / "val/cat/c.png"), str(root / "val/eel/z.jpeg")], [0, 2])


def test_index_gives_what_a_fresh_listing_gives(root: Path) -> None:
    fresh = contents(root, None)
    source(root).prepare()
    assert index_of(root).is_file()
    assert contents(root) == fresh


def test_second_start_looks_into_no_class(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(listed(root, monkeypatch)) == 5  # three of train, two of val
    assert listed(root, monkeypatch) == []


@pytest.mark.parametrize(
    ("change", "looked_into"),
    [
        (lambda root: (root / "train/dog/new.png").touch(), ["train/dog"]),
        (lambda root: (root / "train/cat/b.png").unlink(), ["train/cat"]),
        (lambda root: (root / "train/cat/b.png").rename(root / "train/cat/0.png"), ["train/cat"]),
        (lambda root: (root / "train/cat/b.png").rename(root / "train/dog/b.png"), ["train/cat", "train/dog"]),
        (lambda root: touch(root, "train/ape/1.png"), ["train/ape"]),
        (lambda root: shutil.rmtree(root / "train/dog"), []),
        (lambda root: (root / "train/dog").rename(root / "train/ant"), ["train/ant"]),
        (lambda root: touch(root, "val/dog/1.png"), ["val/dog"]),
    ],
    ids=["added", "removed", "renamed", "moved", "class added", "class removed", "class renamed", "class in val"],
)
def test_what_has_changed_is_listed_anew_and_nothing_else(
    root: Path, monkeypatch: pytest.MonkeyPatch, change, looked_into: list[str]
) -> None:
    source(root).prepare()
    change(root)
    settle(monkeypatch)
    expected = contents(root, None)
    assert contents(root) == expected  # without prepare too
    assert listed(root, monkeypatch) == looked_into
    assert contents(root) == expected
    assert listed(root, monkeypatch) == []


def test_two_classes_that_change_names_are_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(root).prepare()
    for old, new in (("cat", "swap"), ("dog", "cat"), ("swap", "dog")):
        (root / "train" / old).rename(root / "train" / new)
    settle(monkeypatch)
    assert contents(root) == contents(root, None)


def test_change_within_a_tick_of_the_clock_is_noticed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's time is the same before and after."""
    monkeypatch.setattr("spt.data.listing._SETTLED_AFTER", 2 * 10**9)
    (root / "train/dog/first.png").touch()
    source(root).prepare()
    (root / "train/dog/second.png").touch()
    assert contents(root) == contents(root, None)


@pytest.mark.parametrize("damage", ["cut short", "empty", "one byte", "foreign", "another folder's"])
def test_damaged_index_is_made_anew(root: Path, damage: str) -> None:
    source(root).prepare()
    index, fresh = index_of(root), contents(root, None)
    content = bytearray(index.read_bytes())
    if damage == "one byte":
        content[-5] ^= 1
        index.write_bytes(content)
    elif damage == "cut short":
        cut_short(index)
    elif damage == "another folder's":
        shutil.copy(index_of(root, "val"), index)
    else:
        index.write_bytes({"empty": b"", "foreign": pickle.dumps(content)}[damage])
    assert read_listing(index, root / "train", ENDINGS) is None
    assert contents(root) == fresh
    source(root).prepare()
    assert read_listing(index, root / "train", ENDINGS) is not None


def test_index_may_lie_anywhere_and_nothing_is_written_beside_the_images(root: Path, tmp_path: Path) -> None:
    before = sorted(root.rglob("*"))
    source(root, str(tmp_path / "place")).prepare()
    assert len(list((tmp_path / "place").iterdir())) == 2
    assert not (tmp_path / "cache").exists()
    assert sorted(root.rglob("*")) == before


def test_place_that_cannot_be_written_costs_the_index_and_not_the_run(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        source(root, str(tmp_path / "file")).prepare()
    assert "data.source.index=FOLDER" in caplog.text
    assert contents(root, str(tmp_path / "file")) == contents(root, None)


def test_several_writers_at_once_leave_one_whole_index(root: Path) -> None:
    writers = [threading.Thread(target=source(root).prepare) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert contents(root) == contents(root, None)
    assert read_listing(index_of(root), root / "train", ENDINGS) is not None
    assert len(list(index_of(root).parent.iterdir())) == 2


def test_paths_are_a_sequence_that_can_be_sent_to_a_process(root: Path) -> None:
    paths = source(root, None).load().train.paths
    assert isinstance(paths, FilePaths)
    assert (len(paths), paths[-1], paths[1:3]) == (4, paths[3], [paths[1], paths[2]])
    with pytest.raises(IndexError):
        paths[4]
    assert list(pickle.loads(pickle.dumps(paths))) == list(paths)


def test_some_files_of_a_listing_keep_their_names_and_labels(root: Path) -> None:
    source(root).prepare()
    listing = read_listing(index_of(root), root / "train", ENDINGS)
    assert listing is not None
    some = listing.of(torch.tensor([1, 3]))
    paths = FilePaths(root / "train", listing)
    assert list(FilePaths(root / "train", some)) == [paths[1], paths[3]]
    assert some.labels().tolist() == [0, 1]
