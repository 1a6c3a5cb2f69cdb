from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from spt.config.errors import ConfigError
from spt.data.files import FileImages, readable_rows
from spt.data.images import Key
from tests.data.sets import Mirror, cut_short, write_image


def make_files(folder: Path, *, on_unreadable: str, damaged: tuple[int, ...] = (), ending: str = "png") -> FileImages:
    files = [write_image(folder / f"{index}.{ending}", 10 * index) for index in range(5)]
    for index in damaged:
        cut_short(files[index])
    return FileImages(
        [str(file) for file in files], torch.arange(5) + 100, reduced_decoding=None, on_unreadable=on_unreadable
    )


def test_training_sample_has_one_stack_a_view(tmp_path: Path) -> None:
    sample = make_files(tmp_path, on_unreadable="stop").training_sample([Key(7, 3), Key(7, 1), Key(8, 4)], Mirror())
    first, second = sample.images
    assert first.shape == second.shape == (3, 3, 2, 2)
    assert first[:, 0, 0, 0].tolist() == [30, 10, 40]
    assert second[:, 0, 0, 0].tolist() == [37, 17, 48]
    assert sample.labels.tolist() == [103, 101, 104]
    assert (sample.indices.tolist(), sample.epochs.tolist()) == ([3, 1, 4], [7, 7, 8])


def test_evaluation_sample_has_one_view_and_flags_duplicates(tmp_path: Path) -> None:
    """Trap 83."""
    sample = make_files(tmp_path, on_unreadable="stop").evaluation_sample([Key(0, 2), Key(0, -1)], Mirror())
    (view,) = sample.images
    assert view[0, 0, 0, 0] == 20
    assert sample.indices.tolist() == [2, -1]


@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_damaged_file_stops_training_with_its_path(tmp_path: Path, ending: str) -> None:
    files = make_files(tmp_path, on_unreadable="stop", damaged=(2,), ending=ending)
    with pytest.raises(ConfigError, match=f"2.{ending} cannot be read"):
        files.training_sample([Key(0, 1), Key(0, 2)], Mirror())


def test_damaged_file_is_replaced_by_the_next_and_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = make_files(tmp_path, on_unreadable="skip", damaged=(3, 4))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            sample = files.training_sample([Key(0, 1), Key(0, 3)], Mirror())
            assert sample.images[0][:, 0, 0, 0].tolist() == [10, 0]
            assert sample.labels.tolist() == [101, 100]
            assert sample.indices.tolist() == [1, 3]
    assert ["3.png" in record.message for record in caplog.records] == [True, False]
    assert "4.png" in caplog.records[1].message


def test_damaged_file_is_not_counted_in_evaluation(tmp_path: Path) -> None:
    files = make_files(tmp_path, on_unreadable="skip", damaged=(2,))
    assert files.evaluation_sample([Key(0, 1), Key(0, 2), Key(0, 3)], Mirror()).indices.tolist() == [1, -1, 3]


def test_folder_without_a_readable_file_stops_training(tmp_path: Path) -> None:
    files = make_files(tmp_path, on_unreadable="skip", damaged=(0, 1, 2, 3, 4))
    with pytest.raises(ConfigError, match="None of the 5 images"):
        files.training_sample([Key(0, 1)], Mirror())


def list_files(folder: Path) -> list[str]:
    files = [write_image(folder / name, 10) for name in ("0.jpg", "1.png", "2.jpg", "3.png")]
    cut_short(files[0])
    cut_short(files[3])
    files[1].with_suffix(".txt").write_text("no image")
    return [str(file) for file in [*files, files[1].with_suffix(".txt")]]


def test_scan_names_all_damaged_files_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="3 of 5") as error:
        readable_rows(list_files(tmp_path), "stop")
    for name in ("0.jpg", "3.png", "1.txt"):
        assert str(tmp_path / name) in str(error.value)
    assert "2.jpg" not in str(error.value)


def test_scan_may_leave_damaged_files_out_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = list_files(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert readable_rows(files, "skip").tolist() == [1, 2]
    (record,) = caplog.records
    assert all(name in record.message for name in ("0.jpg", "3.png", "1.txt"))
