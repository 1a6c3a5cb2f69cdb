from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
import torchvision
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from spt.config.errors import ConfigError
from spt.data.files import FileImages
from spt.data.images import Key, MemoryImages
from spt.data.module import ImageData
from spt.data.sources.cifar import Cifar
from spt.data.sources.digits import Digits
from spt.data.sources.fake import Fake
from spt.data.sources.fashion_mnist import FashionMNIST
from spt.data.sources.image_folder import ImageFolder
from spt.data.sources.missing import download
from spt.data.sources.stl10 import STL10
from tests.data.sets import cut_short, write_folder, write_image

CONF = Path(__file__).parents[2] / "conf"
OPTIONS = sorted(file.stem for file in (CONF / "data").glob("*.yaml"))


def compose_data(option: str, root: Path) -> DictConfig:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose(f"data/{option}")
    whole = OmegaConf.merge({"seed": 2, "paths": {"data": str(root)}}, cfg)
    assert isinstance(whole, DictConfig)
    return whole.data


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_builds_a_module_that_reads_nothing_yet(option: str, tmp_path: Path) -> None:
    data = instantiate(compose_data(option, tmp_path), _convert_="all")
    assert isinstance(data, ImageData)
    assert data.seed == 2
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["digits", "fake"])
def test_options_without_files_are_what_their_yaml_says(option: str, tmp_path: Path) -> None:
    data = instantiate(compose_data(option, tmp_path), _convert_="all")
    data.prepare_data()
    data.setup()
    assert len(data.train_dataloader()) == data.num_images // data.global_batch_size


def test_statistics_of_digits_are_those_in_their_yaml(tmp_path: Path) -> None:
    data = instantiate(compose_data("digits", tmp_path), _convert_="all")
    train = data.splits.train.images[:, 0] / 255
    assert abs(train.mean() - data.mean[0]) < 1e-4
    assert abs(train.std() - data.std[0]) < 1e-3


def test_digits_are_split_evenly_over_classes_and_always_alike() -> None:
    splits = Digits(val_share=0.2, split_seed=0).load()
    again = Digits(val_share=0.2, split_seed=0).load()
    assert isinstance(splits.train, MemoryImages)
    assert splits.train.images.shape == (1437, 3, 8, 8)
    assert splits.train.images.max() == 255
    assert torch.equal(splits.val.labels, again.val.labels)
    shares = splits.val.labels.bincount() / (splits.val.labels.bincount() + splits.train.labels.bincount())
    assert (shares - 0.2).abs().max() < 0.01


def test_fake_images_follow_from_their_index() -> None:
    train = Fake(image_size=6, num_classes=4, num_images=200, num_val_images=3).load().train
    images = train.training_sample([Key(0, index) for index in (5, 69, 133, 5)], None).images
    again = Fake(image_size=6, num_classes=4, num_images=200, num_val_images=3).load().train
    assert torch.equal(images[0], images[3])
    assert not torch.equal(images[0], images[1])
    assert not torch.equal(images[1], images[2])
    assert torch.equal(again.training_sample([Key(0, 69)], None).images[0], images[1])
    assert train.labels[[5, 69, 133]].tolist() == [1, 1, 1]


def write_idx(file: Path, values: np.ndarray) -> None:
    header = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}i", *values.shape)
    content = header + values.astype(np.uint8).tobytes()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("place", ["folder", "torchvision"])
def test_fashion_mnist_is_read_from_both_places(tmp_path: Path, place: str, ending: str) -> None:
    folder = tmp_path / "debian" if place == "folder" else tmp_path / "root" / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    for split, count in (("train", 7), ("t10k", 3)):
        write_idx(folder / f"{split}-images-idx3-ubyte{ending}", np.arange(count * 28 * 28).reshape(count, 28, 28))
        write_idx(folder / f"{split}-labels-idx1-ubyte{ending}", np.arange(count))
    splits = FashionMNIST(folder=str(tmp_path / "debian"), root=str(tmp_path / "root"), download=False).load()
    assert isinstance(splits.train, MemoryImages)
    assert splits.train.images.shape == (7, 3, 28, 28)
    assert splits.train.images[2, 1, 3, 4] == (2 * 28 * 28 + 3 * 28 + 4) % 256
    assert splits.val.labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize("file", ["train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"])
def test_fashion_mnist_without_one_file_is_not_there(tmp_path: Path, file: str) -> None:
    for split in ("train", "t10k"):
        write_idx(tmp_path / f"{split}-images-idx3-ubyte", np.zeros((2, 28, 28)))
        write_idx(tmp_path / f"{split}-labels-idx1-ubyte", np.zeros(2))
    (tmp_path / file).unlink()
    with pytest.raises(ConfigError, match="dataset-fashion-mnist") as error:
        FashionMNIST(folder=str(tmp_path), root=str(tmp_path / "root"), download=False).load()
    for word in (file, str(tmp_path), str(tmp_path / "root"), "download=true", "data=digits"):
        assert word in str(error.value)


@pytest.mark.parametrize("source", ["cifar10", "cifar100", "stl10"])
def test_absent_archive_says_where_and_how(tmp_path: Path, source: str) -> None:
    made = {
        "cifar10": Cifar(num_classes=10, root=str(tmp_path), download=False),
        "cifar100": Cifar(num_classes=100, root=str(tmp_path), download=False),
        "stl10": STL10(split="train", root=str(tmp_path), download=False),
    }[source]
    made.prepare()
    with pytest.raises(ConfigError, match="is not there") as error:
        made.load()
    for word in (str(tmp_path), "download=true", ".tar.gz"):
        assert word in str(error.value)


def test_cifar_is_read_in_channels_rows_and_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for place, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        pixels = np.arange(2 * 3072).reshape(2, 3072) // 1024 + 10 * place
        (folder / name).write_bytes(pickle.dumps({"data": pixels.astype(np.uint8), "labels": [place, 9]}))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [str(label) for label in range(10)]}))
    # checksums are those of the real files
    monkeypatch.setattr(torchvision.datasets.CIFAR10, "_check_integrity", lambda self: True)
    monkeypatch.setattr(torchvision.datasets.cifar, "check_integrity", lambda path, md5: True)
    splits = Cifar(num_classes=10, root=str(tmp_path), download=False).load()
    assert isinstance(splits.train, MemoryImages)
    assert splits.train.images.shape == (10, 3, 32, 32)
    assert splits.train.images[3, :, 5, 6].tolist() == [13, 14, 15]
    assert splits.val.labels.tolist() == [5, 9]


def test_download_without_a_network_is_one_error(tmp_path: Path) -> None:
    def fetch() -> None:
        raise URLError("no route to host")

    with pytest.raises(ConfigError, match=r"CIFAR-10 cannot be downloaded .*no route to host.* Do this\."):
        download("CIFAR-10", fetch, tmp_path, "Do this.")


def make_folder(
    root: Path, *, on_unreadable: str = "stop", verify: bool = False, reduced_decoding: float | None = None
) -> ImageFolder:
    return ImageFolder(
        root=str(root), index=None, reduced_decoding=reduced_decoding, on_unreadable=on_unreadable, verify=verify
    )


@pytest.mark.parametrize(
    ("key", "build"),
    [
        ("CIFAR-20", lambda: Cifar(num_classes=20, root="x", download=False)),
        ("data.source.split=test", lambda: STL10(split="test", root="x", download=False)),
        (
            "data.source.on_unreadable=ask",
            lambda: ImageFolder(root="x", index=None, reduced_decoding=None, on_unreadable="ask", verify=False),
        ),
    ],
)
def test_unknown_choice_is_refused(key: str, build) -> None:
    with pytest.raises(ConfigError, match=key):
        build()


def read_folder(root: Path, *, on_unreadable: str = "stop", verify: bool = False):
    return ImageFolder(
        root=str(root), index=None, reduced_decoding=None, on_unreadable=on_unreadable, verify=verify
    ).load()


def test_image_folder_lists_images_of_sorted_classes(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "train" / "cat" / "notes.txt").write_text("no image")
    splits = read_folder(tmp_path)
    assert isinstance(splits.train, FileImages)
    names = [Path(path).relative_to(tmp_path / "train").as_posix() for path in splits.train.paths]
    assert names == ["cat/0.png", "cat/2.png", "cat/4.png", "dog/1.png", "dog/3.png", "dog/5.png"]
    assert splits.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert (splits.val.labels.tolist(), splits.num_classes) == ([0, 0, 1], 2)


def test_validation_may_lack_a_class_and_labels_stay_right(tmp_path: Path) -> None:
    write_folder(tmp_path, num_val=0)
    write_image(tmp_path / "val" / "dog" / "a.png", 0)
    assert read_folder(tmp_path).val.labels.tolist() == [1]


def test_validation_class_without_training_images_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path)
    write_image(tmp_path / "val" / "emu" / "a.png", 0)
    with pytest.raises(ConfigError, match="emu"):
        read_folder(tmp_path)


@pytest.mark.parametrize("folders", [[], ["train"], ["train/cat"]])
def test_absent_or_empty_folder_says_what_is_expected(tmp_path: Path, folders: list[str]) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"data\.source\.root=FOLDER") as error:
        read_folder(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_image_folder_may_be_verified_before_training(tmp_path: Path) -> None:
    write_folder(tmp_path)
    cut_short(tmp_path / "train" / "cat" / "2.png")
    cut_short(tmp_path / "train" / "dog" / "3.png")
    with pytest.raises(ConfigError, match="2 of 6 images"):
        read_folder(tmp_path, verify=True)
    assert len(read_folder(tmp_path, verify=True, on_unreadable="skip").train.labels) == 4


@pytest.mark.parametrize("share", [0.0, 1.0, 2.0])
def test_a_split_of_digits_that_empties_a_class_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match=rf"data.source.val_share={share} .*0.01 to 0.99"):
        Digits(val_share=share, split_seed=0)
