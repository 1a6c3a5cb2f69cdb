"""What painters make of embeddings and tokens."""

from __future__ import annotations

import numpy as np
import torch

from spt.evaluation.principal import principal_components
from spt.evaluation.rows import Rows
from spt.pictures.attention import heat
from spt.pictures.embedding_map import _draw
from spt.pictures.neighbours import nearest
from spt.pictures.tokens import in_colors


def test_the_brightest_patch_is_the_one_that_is_looked_at_most() -> None:
    weights = torch.tensor([[0.1, 0.2, 0.4, 0.0], [0.0, 0.01, 0.02, 0.03]])
    images = heat(weights)
    assert images.shape == (2, 2, 2, 3)
    brightness = images.sum(-1).reshape(2, 4)
    assert brightness.argmax(1).tolist() == [2, 3]
    assert brightness[0, 2] == brightness[1, 3]  # each image on its own scale


def test_like_tokens_have_like_colours_across_images() -> None:
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randn(3, 10, generator=generator)
    which = torch.tensor([[0, 0, 1, 1], [1, 2, 2, 0]])
    tokens = kinds[which] + 0.01 * torch.randn(2, 4, 10, generator=generator)  # [2, 4, 10]
    colors = in_colors(tokens).reshape(8, 3)
    labels = which.flatten()
    distances = np.abs(colors[:, None] - colors[None]).max(-1)
    same = (labels[:, None] == labels[None]).numpy()
    # the third component is noise; the first two tell the kinds apart
    assert np.abs(colors[:, None] - colors[None])[..., :2].max(-1)[same].max() < 0.2
    assert distances[~same].min() > 0.5


def test_tokens_that_are_all_alike_can_be_drawn() -> None:
    assert np.isfinite(in_colors(torch.ones(2, 4, 6))).all()


def test_neighbours_are_the_bank_images_of_greatest_cosine() -> None:
    generator = torch.Generator().manual_seed(0)
    bank = Rows(torch.randn(9, 4, generator=generator), torch.arange(9) % 3, torch.arange(20, 29))
    queries = torch.randn(2, 4, generator=generator)
    found = nearest(queries, bank, 3)
    cosines = torch.nn.functional.cosine_similarity(queries[:, None], bank.embeddings[None], dim=-1)  # [2, 9]
    expected = cosines.argsort(1, descending=True)[:, :3]
    assert torch.equal(found.indices, bank.indices[expected])
    assert torch.equal(found.labels, bank.labels[expected])
    torch.testing.assert_close(found.similarities, cosines.gather(1, expected))
    assert nearest(queries, bank, 30).indices.shape == (2, 9)


def test_a_map_of_many_classes_colours_ten_of_them() -> None:
    embeddings = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    rows = Rows(embeddings, torch.arange(60) % 30, torch.arange(60))
    figure = _draw(rows, principal_components(embeddings, 2), "step 4")
    (axes,), (legend,) = figure.axes, figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names[0] == "other classes"
    assert names[1:] == [f"class {label}" for label in (0, 3, 6, 10, 13, 16, 19, 23, 26, 29)]
    assert sum(len(points.get_offsets()) for points in axes.collections) == 60
