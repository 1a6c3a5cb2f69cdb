"""Views and masks of a training batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spt.pictures.masks import MasksPainter, masked, visible
from spt.pictures.painter import Colors
from spt.pictures.views import ViewsPainter
from spt.types import Batch, Masks

# 5 images, 2 global views of 8 pixels, 3 local ones of 4; patches of 2 pixels

PLAIN = Colors([0.0] * 3, [1.0] * 3)
MASKS = Masks(torch.tensor([[0, 5]] * 5), torch.tensor([[[1, 2, 3]] * 5, [[12, 13, 15]] * 5]))


def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    global_views = [torch.rand(5, 3, 8, 8, generator=generator) for _ in range(2)]
    local_views = [torch.rand(5, 3, 4, 4, generator=generator) for _ in range(3)]
    return Batch(global_views, local_views, MASKS)


def test_views_are_shown_as_before_their_normalisation() -> None:
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]
    image = torch.rand(5, 3, 8, 8)
    normalised = (image - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    shown = Colors(mean, std).pixels(normalised)
    np.testing.assert_allclose(shown, image.permute(0, 2, 3, 1).numpy(), atol=1e-6)


def test_a_token_covers_its_patch() -> None:
    pixels = visible(torch.tensor([[1, 6]]), 8, 2)[0]  # 4 patches a side: token 6 is row 1, column 2
    expected = np.zeros((8, 8), dtype=bool)
    expected[0:2, 2:4] = True
    expected[2:4, 4:6] = True
    assert (pixels == expected).all()


def test_what_a_mask_leaves_out_is_covered() -> None:
    white = np.ones((5, 8, 8, 3), dtype=np.float32)
    columns = masked(white, MASKS, 2)
    assert [column.head for column in columns] == ["context\n2 tokens", "target 1\n3 tokens", "target 2\n3 tokens"]
    assert columns[0].images[0, 0, 0] == pytest.approx([1, 1, 1])
    assert columns[0].images[0, 7, 7] == pytest.approx([0.48, 0.6, 0.8])


def test_the_picture_has_a_column_for_every_view() -> None:
    drawing = ViewsPainter(num_images=2).paint(batch(), PLAIN)
    texts = [text.get_text() for text in drawing("step 7").texts]
    assert texts == [
        "views of a training batch, step 7",
        *("global 1\n8 px", "global 2\n8 px", "local 1\n4 px", "local 2\n4 px", "local 3\n4 px"),
    ]


def test_masks_are_drawn_for_methods_that_have_them_and_for_no_other() -> None:
    painter = MasksPainter(num_images=2, patch_size=2)
    assert painter.paint(batch()._replace(masks=None), PLAIN) is None
    assert MasksPainter(num_images=2, patch_size=None).paint(batch(), PLAIN) is None
    drawing = painter.paint(batch(), PLAIN)
    assert drawing is not None
    assert len(drawing("step 0").texts) == 5  # title, view, context and two targets


def test_bfloat16_views_can_be_shown() -> None:
    views = Batch([view.bfloat16() for view in batch().global_views], [])
    ViewsPainter(num_images=9).paint(views, PLAIN)("step 0")
