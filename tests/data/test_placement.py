from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from lightning import LightningModule, Trainer
from torch import Tensor, nn

from spt.config.errors import ConfigError
from spt.data.images import Key, MemoryImages
from spt.data.placement import SHARE, belongs_on_device
from spt.types import Sample
from tests.data.sets import Tiny, make_data, make_images

CPU, CUDA, MPS = (torch.device(kind) for kind in ("cpu", "cuda", "mps"))
META = torch.device("meta")  # stands for a device whose memory is not the host's


def decide(
    images_on: str, device: torch.device, *, num_bytes: int = 25, free: int = 100, for_workers: bool = False
) -> bool:
    return belongs_on_device(images_on, num_bytes=num_bytes, device=device, free_bytes=free, for_workers=for_workers)


def test_images_go_unasked_to_a_gpu_with_room_for_them() -> None:
    assert SHARE == 0.25
    assert decide("auto", CUDA)
    assert not decide("auto", CUDA, num_bytes=26)
    assert not decide("auto", CUDA, for_workers=True)
    assert not decide("auto", MPS)
    assert not decide("host", CUDA)


def test_images_go_to_a_device_that_is_asked_for_if_they_fit() -> None:
    assert decide("device", CUDA, num_bytes=100)
    assert decide("device", MPS)
    with pytest.raises(ConfigError, match=r"data\.images_on=host"):
        decide("device", CUDA, num_bytes=101)
    with pytest.raises(ConfigError, match=r"data\.num_workers=0"):
        decide("device", CUDA, for_workers=True)


@pytest.mark.parametrize("images_on", ["auto", "device", "host"])
def test_nothing_changes_on_a_cpu(images_on: str) -> None:
    assert not decide(images_on, CPU, for_workers=images_on == "device")


@pytest.mark.parametrize("channels", [1, 3])
def test_sample_is_made_where_the_images_are_but_for_its_numbers(channels: int) -> None:
    images = MemoryImages(torch.zeros(9, channels, 5, 4, dtype=torch.uint8), torch.arange(9)).on(META)
    for sample in (images.training_sample([Key(2, 7), Key(2, 4)], None), images.evaluation_sample([Key(0, -1)], None)):
        assert (sample.images.device, sample.labels.device) == (META, META)
        assert (sample.indices.device, sample.epochs.device) == (CPU, CPU)  # masks are drawn by them
        assert sample.images.shape[1:] == (3, 5, 4)


def test_grey_images_are_copied_with_their_one_channel() -> None:
    images = make_images(6)
    assert images.num_bytes == 6 * 5 * 4
    assert images.on(META).images.stride(1) == 0


def test_batches_of_a_run_are_made_where_it_trains() -> None:
    data = make_data(Tiny(num_train=26, num_val=5), images_on="device")
    data.trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=META))
    batches = [data.evaluation_sample(0, [3, 4]), *data.val_dataloader()[0], *data.val_dataloader()[1]]
    assert {part.device for batch in batches for part in (batch.images, batch.labels)} == {META}
    assert data.splits.train.images.device == CPU  # for who draws them
    assert data.evaluation_sample(0, [3]).labels.device == META


def test_unknown_place_for_images_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.images_on=gpu"):
        make_data(Tiny(num_train=26, num_val=5), images_on="gpu")


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
def test_run_on_a_gpu_sees_the_same_batches_from_its_memory_and_from_the_hosts() -> None:
    seen: dict[str, list[Sample]] = {}

    class Noter(LightningModule):
        def __init__(self, images_on: str) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(()))
            self.seen = seen.setdefault(images_on, [])

        def training_step(self, batch: Sample, batch_idx: int) -> Tensor:
            self.seen.append(batch)
            return self.weight**2

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    for images_on in ("auto", "host"):
        trainer = Trainer(
            accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False, limit_val_batches=0,
        )  # fmt: skip
        data = make_data(Tiny(num_train=26, num_val=5), images_on=images_on)
        trainer.fit(Noter(images_on), datamodule=data)
        is_there = data.train_dataloader().dataset.images.labels.device.type == "cuda"
        assert is_there == (images_on == "auto")
    assert len(seen["auto"]) == len(seen["host"]) == 4
    for ours, theirs in zip(seen["auto"], seen["host"], strict=True):
        assert all(torch.equal(one, other) for one, other in zip(ours[:4], theirs[:4], strict=True))
