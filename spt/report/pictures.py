"""The pictures of a run as data that a page carries with it."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from spt.report.markup import Html, element, join

MAX_WIDTH = 1600
"""Pixels; a picture that is wider is scaled down."""
_REPLACED = {"curves"}  # the page draws them itself
_CAPTIONS = {
    "views": "Views of training images, as the network sees them",
    "masks": "Masks of training images",
    "attention": "Attention of the last block",
    "tokens": "Patch tokens in the colours of their first principal components",
    "neighbours": "Nearest neighbours of validation images",
    "embedding_map": "Map of the embeddings",
}


class Picture(NamedTuple):
    """A picture of a run.

    Attributes:
        name: of its file, without the ending.
        uri: all of it.
        size: width and height in pixels, as embedded.
    """

    name: str
    uri: str
    size: tuple[int, int]

    @property
    def caption(self) -> str:
        """For people."""
        return _CAPTIONS.get(self.name, self.name.replace("_", " ").capitalize())


def read_pictures(folder: Path) -> tuple[list[Picture], list[str]]:
    """The PNGs in a run's plots/, and a line for each that cannot be read: it may be being written at this moment."""
    pictures, problems = [], []
    for file in sorted((folder / "plots").glob("*.png")):
        if file.stem in _REPLACED:
            continue
        try:
            pictures.append(_embed(file))
        except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for a PNG that is cut short or none
            problems.append(f"plots/{file.name} cannot be read: {error}")
    return pictures, problems


def gallery(pictures: list[Picture], prefix: str) -> Html:
    """The pictures, each in a button that shows it large.

    Args:
        pictures: of one run.
        prefix: of the text that stands for a picture, such as the run's name.
    """
    figures = []
    for picture in pictures:
        width, height = picture.size
        image = element("img", src=picture.uri, alt=f"{prefix}: {picture.caption}", width=width, height=height)
        button = element("button", image, type="button", class_="enlarge", title="show large")
        figures.append(element("figure", button, element("figcaption", picture.caption), class_="picture card"))
    return element("div", join(figures), class_="pictures")


def _embed(file: Path) -> Picture:
    content = file.read_bytes()
    with Image.open(io.BytesIO(content)) as image:
        image.load()  # all of it, or an error
        size = image.size
        if image.width > MAX_WIDTH:
            size = (MAX_WIDTH, max(1, round(image.height * MAX_WIDTH / image.width)))
            small = io.BytesIO()
            color = image.convert("RGBA" if "A" in image.getbands() else "RGB")
            color.resize(size, Image.Resampling.LANCZOS).save(small, "PNG", optimize=True)
            content = small.getvalue()
    return Picture(file.stem, f"data:image/png;base64,{base64.b64encode(content).decode()}", size)
