from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spt.pictures.sheet import Column, draw_sheet
from spt.reporting.picture import save

RED, GREEN, BLUE = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def plain(*colors: tuple[float, float, float], size: int) -> np.ndarray:
    """One image of a single colour a row."""
    return np.stack([np.broadcast_to(np.float32(color), (size, size, 3)) for color in colors])


def test_images_of_any_size_stand_in_rows_and_columns(tmp_path: Path) -> None:
    columns = [Column("left", plain(RED, BLUE, size=4)), Column("right", plain(GREEN, RED, size=300))]
    pixels = save(draw_sheet("two", columns), tmp_path / "sheet.png").pixels
    height, width, _ = pixels.shape
    assert (width, height) == (2 * 120 + 8 + 20, 28 + 15 + 2 * 120 + 8 + 20)
    first, second = height - 10 - 120 - 8 - 60, height - 10 - 60  # rows of pixels through the images' middles
    found = [[pixels[row, column].tolist() for column in (70, 198)] for row in (first, second)]
    assert found == [[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 0, 0]]]


def test_a_frame_is_around_its_image_alone(tmp_path: Path) -> None:
    columns = [Column("left", plain(RED, size=4)), Column("right", plain(RED, size=4), ["seven"], [GREEN])]
    pixels = save(draw_sheet("frames", columns), tmp_path / "sheet.png").pixels
    middle = 28 + 15 + 10 + 60
    greens = [column for column in range(pixels.shape[1]) if pixels[middle, column].tolist() == [0, 255, 0]]
    assert greens == [*range(134, 138), *range(258, 262)]


@pytest.mark.parametrize("has_captions", [False, True])
def test_texts_do_not_touch_each_other(has_captions: bool, tmp_path: Path) -> None:
    captions = ["class 7", "12  (0.999)"] if has_captions else []
    columns = [Column(f"global {number}\n224 px", plain(RED, BLUE, size=8), captions) for number in range(3)]
    figure = draw_sheet("context that the student sees and blocks that it predicts, step 123456", columns)
    save(figure, tmp_path / "sheet.png")
    boxes = [text.get_window_extent() for text in figure.texts]
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    width, height = figure.get_size_inches() * figure.dpi
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height for box in boxes)
