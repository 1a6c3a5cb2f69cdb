from __future__ import annotations

import torch

from spt.data.images import Key, MemoryImages, Samples
from tests.data.sets import make_images


def test_grey_images_get_three_channels_without_memory() -> None:
    images = make_images(6)
    assert images.images.shape == (6, 3, 5, 4)
    assert images.images.stride(1) == 0


def test_sample_holds_the_images_that_the_keys_name() -> None:
    sample = make_images(9).training_sample([Key(2, 7), Key(3, 4)], None)
    assert isinstance(sample.images, torch.Tensor)
    assert sample.images[:, 1, 3, 2].tolist() == [7, 4]
    assert sample.labels.tolist() == [1, 1]
    assert sample.indices.tolist() == [7, 4]
    assert sample.epochs.tolist() == [2, 3]


def test_duplicate_keeps_its_flag() -> None:
    """Trap 83."""
    sample = make_images(9).evaluation_sample([Key(0, 8), Key(0, -1)], None)
    assert sample.indices.tolist() == [8, -1]
    assert len(sample.images) == 2


def test_data_set_of_a_loader_gives_batches() -> None:
    samples = Samples(MemoryImages(torch.zeros(4, 3, 2, 2, dtype=torch.uint8), torch.arange(4)), None, is_training=True)
    assert len(samples) == 4
    assert samples.__getitems__([Key(0, 3), Key(0, 1)]).labels.tolist() == [3, 1]
    assert samples[Key(0, 2)].labels.tolist() == [2]
