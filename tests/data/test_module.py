from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn

from spt.config.errors import ConfigError
from spt.data.module import ImageData
from spt.data.sources.image_folder import ImageFolder
from spt.types import Sample
from tests.data.sets import Mirror, Tiny, make_data, write_folder

pytestmark = [
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning"),  # Lightning 2.6 under torch 2.14
]

STEPS, EPOCHS = 4, 3  # 26 images in global batches of 6


class Recorder(LightningModule):
    """Trains one number and writes down (epoch, indices) of every micro-batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.seen: list[tuple[int, tuple[int, ...]]] = []

    def training_step(self, batch: Sample, batch_idx: int) -> Tensor:
        (epoch,) = set(batch.epochs.tolist())
        self.seen.append((epoch, tuple(batch.indices.tolist())))
        return self.weight**2

    def validation_step(self, batch: Sample, batch_idx: int, dataloader_idx: int = 0) -> None:
        pass

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Saver(Callback):
    """Saves once, at one of Lightning's hooks, when `count` micro-batches have been trained on."""

    def __init__(self, hook: str, count: int, file: Path) -> None:
        self.hook, self.count, self.file = hook, count, file

    def _save(self, hook: str, trainer: Trainer) -> None:
        if hook == self.hook and len(trainer.lightning_module.seen) == self.count and not self.file.exists():
            trainer.save_checkpoint(self.file)

    def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
        self._save("on_train_batch_end", trainer)

    def on_validation_end(self, trainer: Trainer, *_: object) -> None:
        if not trainer.sanity_checking:
            self._save("on_validation_end", trainer)

    def on_train_epoch_end(self, trainer: Trainer, *_: object) -> None:
        self._save("on_train_epoch_end", trainer)

    def on_train_end(self, trainer: Trainer, *_: object) -> None:
        self._save("on_train_end", trainer)


def fit(
    *,
    num_workers: int,
    accumulation: int = 1,
    epochs: int = EPOCHS,
    callbacks: list[Callback],
    resume: Path | None = None,
) -> list[tuple[int, tuple[int, ...]]]:
    """What a run has seen."""
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        accumulate_grad_batches=accumulation,
        callbacks=callbacks,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=2,
    )
    recorder = Recorder()
    data = make_data(Tiny(num_train=26, num_val=5), num_workers=num_workers)
    trainer.fit(recorder, datamodule=data, ckpt_path=resume, weights_only=True)
    return recorder.seen


@pytest.mark.parametrize(
    ("hook", "count"),
    [
        ("on_train_batch_end", 1),
        ("on_train_batch_end", 6),
        ("on_train_batch_end", 4),
        ("on_train_batch_end", 8),
        ("on_validation_end", 4),
        ("on_train_epoch_end", 4),
        ("on_train_epoch_end", 8),
    ],
)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_resumed_run_sees_what_the_uninterrupted_one_sees(
    tmp_path: Path, hook: str, count: int, num_workers: int
) -> None:
    """Traps 86 and 87."""
    whole = fit(num_workers=0, callbacks=[Saver(hook, count, tmp_path / "run.ckpt")])
    assert [epoch for epoch, _ in whole] == [epoch for epoch in range(EPOCHS) for _ in range(STEPS)]
    assert len({indices for _, indices in whole}) == EPOCHS * STEPS
    assert fit(num_workers=num_workers, callbacks=[], resume=tmp_path / "run.ckpt") == whole[count:]


def test_workers_see_what_the_training_process_sees() -> None:
    """Trap 86."""
    assert fit(num_workers=2, callbacks=[]) == fit(num_workers=0, callbacks=[])


def test_resume_between_two_steps_of_several_micro_batches(tmp_path: Path) -> None:
    """Trap 87."""
    whole = fit(num_workers=0, accumulation=2, callbacks=[Saver("on_train_batch_end", 10, tmp_path / "run.ckpt")])
    assert len(whole) == EPOCHS * STEPS * 2
    assert fit(num_workers=0, accumulation=2, callbacks=[], resume=tmp_path / "run.ckpt") == whole[10:]


def test_finished_run_goes_on_when_it_is_made_longer(tmp_path: Path) -> None:
    whole = fit(num_workers=0, callbacks=[])
    fit(num_workers=0, epochs=2, callbacks=[Saver("on_train_end", 8, tmp_path / "run.ckpt")])
    assert fit(num_workers=0, callbacks=[], resume=tmp_path / "run.ckpt") == whole[8:]


def indices_of(data: ImageData, place: int) -> list[int]:
    return [index for sample in data.val_dataloader()[place] for index in sample.indices.tolist()]


def test_loaders_work_without_a_trainer() -> None:
    data = make_data(Tiny(num_train=26, num_val=5))
    samples = list(data.train_dataloader())
    assert len(samples) == STEPS
    assert samples[0].images.shape == (6, 3, 5, 4)


def test_loaders_leave_the_global_random_state_alone() -> None:
    data = make_data(Tiny(num_train=26, num_val=5))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    list(data.train_dataloader())
    list(data.val_dataloader()[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_evaluation_searches_all_training_images_and_scores_all_validation_images() -> None:
    data = make_data(Tiny(num_train=26, num_val=5))
    assert indices_of(data, 0) == list(range(26))
    assert indices_of(data, 1) == list(range(5))


def test_bank_is_a_fixed_subset_of_the_labelled_training_images() -> None:
    bank, again = (
        indices_of(make_data(Tiny(num_train=26, num_val=5, num_unlabelled=9), bank_size=7), 0) for _ in range(2)
    )
    assert len(set(bank)) == 7
    assert min(bank) >= 9
    assert bank == sorted(bank) == again
    assert indices_of(make_data(Tiny(num_train=26, num_val=5, num_unlabelled=9)), 0) == list(range(9, 26))


def test_data_other_than_the_config_says_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"use data\.num_classes=3"):
        make_data(Tiny(num_train=26, num_val=5), num_classes=4).setup()
    with pytest.raises(ConfigError, match=r"use data\.num_images=26"):
        make_data(Tiny(num_train=26, num_val=5), num_images=27).setup()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_image_files_are_cropped_where_they_are_read(tmp_path: Path, num_workers: int) -> None:
    source = ImageFolder(
        root=str(write_folder(tmp_path)), index=None, reduced_decoding=None, on_unreadable="stop", verify=False
    )
    data = make_data(source, num_classes=2, global_batch_size=3, num_workers=num_workers)
    data.attach(Mirror())
    samples = list(data.train_dataloader())
    assert [[tuple(view.shape) for view in sample.images] for sample in samples] == [[(3, 3, 2, 2)] * 2] * 2
    values = {0: 0, 1: 40, 2: 80, 3: 20, 4: 60, 5: 100}  # files are listed class by class
    for sample in samples:
        assert sample.images[0][:, 0, 0, 0].tolist() == [values[index] for index in sample.indices.tolist()]
    assert [len(sample.images) for sample in data.val_dataloader()[1]] == [1]
