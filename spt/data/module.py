"""The data of a run: training micro-batches, and the images that evaluation searches and scores."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import torch
from filelock import FileLock
from lightning import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader

from spt.config.errors import ConfigError
from spt.data.images import Cropper, ImageSet, Key, MemoryImages, Samples, Source, Splits
from spt.data.placement import ImagesOn, belongs_on_device, free_memory
from spt.data.sampler import EvaluationSampler, GlobalBatchSampler, Position, shuffled
from spt.distributed.gather import rank, world_size
from spt.types import Sample
from spt.views.draws import BANK_STREAM, ORDER_STREAM

logger = logging.getLogger(__name__)

_Batch = TypeVar("_Batch")


class SampleLoader(DataLoader[Sample]):
    """A DataLoader whose position follows from the trainer's counters, which every checkpoint holds.

    The two methods tell Lightning that the loader can go on in the middle of an epoch; there is nothing to keep.
    """

    def state_dict(self) -> dict[str, int]:
        """Empty."""
        return {}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Does nothing: `GlobalBatchSampler.position` is asked at every iteration."""


class ImageData(LightningDataModule):
    """Loaders over one data set. Batches are `Sample`s: decoded images, no augmentation.

    Works without a trainer too, as one process at epoch 0.

    Args:
        source: reads the data set.
        image_size: pixels of the views unless the views say otherwise.
        num_classes: of the labels.
        num_images: training images; None when only the source knows.
        mean: of the channels of the training images in [0, 1].
        std: of the channels.
        evaluation_crop: side of the evaluated central crop as a share of the resized image's shorter side.
        bank_size: labelled training images that k-NN searches, a fixed random subset; None for all.
        global_batch_size: images of one optimizer step, over all devices and micro-batches.
        evaluation_batch_size: images per device.
        num_workers: processes per device that read images; 0 reads in the training process.
        pin_memory: whether batches are staged for copies to a GPU; without one this does nothing.
        images_on: where images of one size that are held in memory are, in a run: device: in that of the device that
            trains, so that no batch is copied; host; auto: on a CUDA device with room for them.
        seed: of the run: order of the images, and the bank.

    Raises:
        ConfigError: images_on is no such place.
    """

    def __init__(
        self,
        *,
        source: Source,
        image_size: int,
        num_classes: int,
        num_images: int | None,
        mean: list[float],
        std: list[float],
        evaluation_crop: float,
        bank_size: int | None,
        global_batch_size: int,
        evaluation_batch_size: int,
        num_workers: int,
        pin_memory: bool,
        images_on: ImagesOn,
        seed: int,
    ) -> None:
        super().__init__()
        if images_on not in ("auto", "device", "host"):
            raise ConfigError(f"data.images_on={images_on} is unknown; use data.images_on=auto, device or host.")
        self.source = source
        self.image_size = image_size
        self.num_classes = num_classes
        self.num_images = num_images
        self.mean, self.std = mean, std
        self.evaluation_crop = evaluation_crop
        self.bank_size = bank_size
        self.global_batch_size = global_batch_size
        self.evaluation_batch_size = evaluation_batch_size
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.images_on = images_on
        self.seed = seed
        self.cropper: Cropper | None = None
        self.complete: Callable[[Sample], Sample] | None = None
        self._splits: Splits | None = None
        self._at_hand: tuple[ImageSet, ImageSet] | None = None

    def attach(self, cropper: Cropper, complete: Callable[[Sample], Sample] | None = None) -> None:
        """Tells what else makes samples; before any loader.

        Args:
            cropper: the views, for workers: they cut crops out of images that differ in size, or do all.
            complete: adds to a training sample, in the training process, before it goes to its device.
        """
        self.cropper = cropper
        self.complete = complete

    def on_before_batch_transfer(self, batch: Sample, dataloader_idx: int) -> Sample:
        """Completes a training sample."""
        is_training = self.trainer is not None and self.trainer.training
        return self.complete(batch) if is_training and self.complete is not None else batch

    def prepare_data(self) -> None:
        """Fetches what is missing; of several processes on a machine one does, while the others wait."""
        with FileLock(Path(tempfile.gettempdir()) / "spt-ssl-data.lock"):
            self.source.prepare()

    def setup(self, stage: str | None = None) -> None:
        """Reads the data set, once."""
        _ = self.splits

    @property
    def splits(self) -> Splits:
        """The data set, read at the first use.

        Raises:
            ConfigError: it is not there, or is not what the config says.
        """
        if self._splits is None:
            self._splits = self._read()
        return self._splits

    def _read(self) -> Splits:
        splits = self.source.load()
        num_images = len(splits.train.labels)
        if splits.num_classes != self.num_classes:
            raise ConfigError(
                f"data.num_classes={self.num_classes}, but the data set has {splits.num_classes} classes; "
                f"use data.num_classes={splits.num_classes}."
            )
        if self.num_images is not None and num_images != self.num_images:
            raise ConfigError(
                f"data.num_images={self.num_images}, but the data set has {num_images} training images; "
                f"use data.num_images={num_images}."
            )
        logger.debug("Read %d training and %d validation images.", num_images, len(splits.val.labels))
        return splits

    def train_dataloader(self) -> SampleLoader:
        """Micro-batches of this process, from where training stands; its length is that of a whole epoch."""
        train = self.splits.train
        sampler = GlobalBatchSampler(
            num_images=len(train.labels),
            global_batch_size=self.global_batch_size,
            accumulation=1 if self.trainer is None else self.trainer.accumulate_grad_batches,
            rank=rank(),
            world_size=world_size(),
            seed=self.seed,
            position=self._position,
        )
        return self._loader(self._samples(train, is_training=True), sampler)

    def val_dataloader(self) -> list[SampleLoader]:
        """[bank, validation]: labelled training images without augmentation, then the images that are scored."""
        train, val = self.splits.train, self.splits.val
        return [
            self._loader(
                self._samples(images, is_training=False),
                EvaluationSampler(rows, batch_size=self.evaluation_batch_size, rank=rank(), world_size=world_size()),
            )
            for images, rows in ((train, self._bank_rows()), (val, torch.arange(len(val.labels))))
        ]

    def evaluation_sample(self, loader: int, rows: list[int]) -> Sample:
        """Chosen images without augmentation, outside any loader.

        Args:
            loader: 0 takes them from the training images, 1 from the validation images.
            rows: positions in the set.
        """
        images = (self.splits.train, self.splits.val)[loader]
        samples = self._samples(images, is_training=False)
        return samples.__getitems__([Key(0, row) for row in rows])

    def training_batches(self, rows: Tensor, *, epoch: int, batch_size: int) -> SampleLoader:
        """Some training images in an order of this epoch, to be augmented; the last batch may be smaller.

        Args:
            rows: [n], int64, positions in the training set.
            epoch: the pass over them: it fixes order and augmentation.
            batch_size: images.
        """
        train = self.splits.train
        order = shuffled(len(rows), seed=self.seed, stream=ORDER_STREAM, epoch=epoch)
        samples = self._samples(train, is_training=True)
        return self._loader(samples, EvaluationSampler(rows[order], batch_size=batch_size, epoch=epoch))

    def evaluation_batches(self, images: ImageSet, rows: Tensor) -> SampleLoader:
        """Some images of a split without augmentation, in the order of `rows`, [n], int64."""
        samples = self._samples(images, is_training=False)
        return self._loader(samples, EvaluationSampler(rows, batch_size=self.evaluation_batch_size))

    def _bank_rows(self) -> Tensor:
        """Positions in the training set of the images that k-NN searches, ascending."""
        labelled = (self.splits.train.labels >= 0).nonzero()[:, 0]
        if self.bank_size is None or self.bank_size >= len(labelled):
            return labelled
        chosen = shuffled(len(labelled), seed=self.seed, stream=BANK_STREAM, epoch=0)[: self.bank_size]
        return labelled[chosen].sort().values

    def _samples(self, images: ImageSet, *, is_training: bool) -> Samples:
        """The batches of a split, or of other images, from where they are at hand."""
        cropper = self.cropper
        assert cropper is not None or not images.needs_cropper, "attach(views) before the first loader"
        if cropper is not None and not (images.needs_cropper or (is_training and cropper.makes_whole_views)):
            cropper = None
        train, val = self.splits.train, self.splits.val
        if images is train or images is val:
            images = self._placed_splits()[0 if images is train else 1]
        return Samples(images, cropper, is_training=is_training)

    def _placed_splits(self) -> tuple[ImageSet, ImageSet]:
        """Training and validation images in the memory where batches of this run are made."""
        train, val = self.splits.train, self.splits.val
        if self.trainer is None or not (isinstance(train, MemoryImages) and isinstance(val, MemoryImages)):
            return train, val
        if self._at_hand is None:
            device, num_bytes = self.trainer.strategy.root_device, train.num_bytes + val.num_bytes
            is_there = belongs_on_device(
                self.images_on,
                num_bytes=num_bytes,
                device=device,
                free_bytes=free_memory(device),
                for_workers=self.num_workers > 0 or (self.cropper is not None and self.cropper.makes_whole_views),
            )
            self._at_hand = (train.on(device), val.on(device)) if is_there else (train, val)
            if is_there:
                logger.info("images    on %s, %.0f MiB", device, num_bytes / 2**20)
        return self._at_hand

    def _loader(self, samples: Samples, sampler: GlobalBatchSampler | EvaluationSampler) -> SampleLoader:
        is_staged = samples.images.labels.device.type == "cpu" and torch.cuda.is_available()
        return SampleLoader(
            samples,
            batch_sampler=sampler,
            num_workers=self.num_workers,
            collate_fn=_as_it_is,
            pin_memory=self.pin_memory and is_staged,  # torch warns about pinning for no one
            persistent_workers=self.num_workers > 0,
            generator=torch.Generator(),  # else every new iteration moves torch's global random state
        )

    def _position(self) -> Position:
        """Where training stands, from the trainer's counters, fresh or restored."""
        if self.trainer is None:
            return Position(0, 0)
        batch_progress = self.trainer.fit_loop.epoch_loop.batch_progress
        epochs, batches = asdict(self.trainer.fit_loop.epoch_progress.current), asdict(batch_progress.current)
        if epochs["started"] == epochs["processed"]:  # between epochs; the counter of batches is still that of the last
            return Position(epochs["processed"], 0)
        if batch_progress.is_last_batch and batches["processed"] == batches["ready"]:
            return Position(epochs["processed"] + 1, 0)  # saved after the last batch, before the epoch was counted
        return Position(epochs["processed"], batches["processed"])


def _as_it_is(batch: _Batch) -> _Batch:
    return batch
