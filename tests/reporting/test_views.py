from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from spt.reporting.views import _mask_columns, _view_columns, plot_views, visible
from spt.types import Batch, Masks

# 5 images, 2 global views of 8 pixels, 3 local ones of 4; patches of 2 pixels


def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    global_views = [torch.rand(5, 3, 8, 8, generator=generator) for _ in range(2)]
    local_views = [torch.rand(5, 3, 4, 4, generator=generator) for _ in range(3)]
    masks = Masks(torch.tensor([[0, 5]] * 5), torch.tensor([[[1, 2, 3]] * 5, [[12, 13, 15]] * 5]))
    return Batch(global_views, local_views, masks)


def test_views_are_shown_as_before_their_normalisation() -> None:
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]
    image = torch.rand(5, 3, 8, 8)
    normalised = (image - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    shown = _view_columns(Batch([normalised], []), 2, mean, std)["global 1"]
    np.testing.assert_allclose(shown, image[:2].permute(0, 2, 3, 1).numpy(), atol=1e-6)


def test_a_token_covers_its_patch() -> None:
    pixels = visible(torch.tensor([[1, 6]]), 8, 2)[0]  # 4 patches a side: token 6 is row 1, column 2
    expected = np.zeros((8, 8), dtype=bool)
    expected[0:2, 2:4] = True
    expected[2:4, 4:6] = True
    assert (pixels == expected).all()


def test_what_a_mask_hides_is_grey() -> None:
    columns = _mask_columns(np.ones((5, 8, 8, 3), dtype=np.float32), batch().masks, 2)  # type: ignore[arg-type]
    assert list(columns) == ["context", "target 1", "target 2"]
    assert columns["context"][0, 0, 0, 0] == 1
    assert columns["context"][0, 7, 7, 0] == pytest.approx(0.6)


def test_the_picture_has_a_column_for_every_view_and_mask(tmp_path: Path) -> None:
    path = plot_views(batch(), tmp_path, mean=[0.0] * 3, std=[1.0] * 3, patch_size=2, num_images=2)
    assert path == tmp_path / "plots" / "views.png"
    assert path.stat().st_size > 0


def test_bfloat16_views_can_be_shown(tmp_path: Path) -> None:
    views = Batch([view.bfloat16() for view in batch().global_views], [])
    plot_views(views, tmp_path, mean=[0.0] * 3, std=[1.0] * 3, patch_size=None, num_images=9)
