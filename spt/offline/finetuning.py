"""Fine-tuning: the whole network and a linear classifier on it learn from labels."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import torch
import torch.nn.functional as F
from lightning import LightningModule
from timm.optim import param_groups_layer_decay
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.utils.data import DataLoader

from spt.backbones.backbone import Backbone, embeddings_of
from spt.config.errors import ConfigError
from spt.data.module import ImageData
from spt.distributed.gather import mean_over_ranks, sum_over_ranks
from spt.schedules import WarmupCosine
from spt.types import Progress, Sample
from spt.views.draws import NETWORK_STREAM, hashes
from spt.views.views import Views

# B images per device, D embedding, C classes

logger = logging.getLogger(__name__)

_SCALE, _DECAY = "lr_scale", "weight_decay"


@dataclass(frozen=True)
class FinetuningRecipe:
    """The numbers of a fine-tuning.

    Attributes:
        base_lr: peak learning rate at 256 images; grows in proportion to the global batch.
        min_lr: where the cosine ends.
        warmup_epochs: passes over which the learning rate rises from 0.
        layer_decay: factor from a block's learning rate to that of the block before it, in (0, 1]; 1 for none.
        weight_decay: of AdamW; biases and norms have none.
        betas: of AdamW.
        drop_path: rate of stochastic depth at the last block.
        label_smoothing: share of the target that goes to all classes alike.
        head_init_std: of the classifier's weights; its bias starts at 0.
    """

    base_lr: float
    min_lr: float
    warmup_epochs: float
    layer_decay: float
    weight_decay: float
    betas: list[float]
    drop_path: float
    label_smoothing: float
    head_init_std: float

    def __post_init__(self) -> None:
        """Refuses numbers that mean nothing.

        Raises:
            ConfigError: says what to type.
        """
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"recipe.layer_decay={self.layer_decay} is a factor; use recipe.layer_decay=0.75 or 1.")
        for name, value in (("drop_path", self.drop_path), ("label_smoothing", self.label_smoothing)):
            if not 0 <= value < 1:
                raise ConfigError(f"recipe.{name}={value} is a share; use a number from 0 to below 1.")


@runtime_checkable
class NamesUndecayed(Protocol):
    """A timm model with parameters, besides biases and norms, that its authors do not decay."""

    def no_weight_decay(self) -> set[str]:
        """Their names, such as cls_token and pos_embed."""


class Finetuning(LightningModule):
    """Trains a backbone and a linear classifier on its embeddings by cross-entropy.

    Args:
        backbone: with the drop-path that it trains with.
        views: one augmented view, and the evaluated one.
        data: training and validation images.
        recipe: the numbers.
        seed: of the classifier's weights and of drop-path.

    Attributes:
        top1: accuracy on the validation images after the latest pass, in [0, 1].
        num_val: validation images.
    """

    def __init__(
        self, backbone: Backbone, *, views: Views, data: ImageData, recipe: FinetuningRecipe, seed: int
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.embed_dim, data.num_classes)
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.head.weight, std=recipe.head_init_std, generator=generator)
        nn.init.zeros_(self.head.bias)
        self.views = views
        self.data = data
        self.recipe = recipe
        self.seed = seed
        self.top1 = 0.0
        self.num_val = 0
        self._counts: Tensor | None = None  # [2], right and all, of this process's validation images

    @property
    def progress(self) -> Progress:
        """Where training is."""
        steps_per_epoch = int(self.trainer.num_training_batches) // self.trainer.accumulate_grad_batches
        return Progress(self.trainer.global_step, int(self.trainer.estimated_stepping_batches), steps_per_epoch)

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, S, S] -> [B, C]."""
        return self.head(embeddings_of(self.backbone, images))

    def train_dataloader(self) -> DataLoader[Sample]:
        """Asked for once the processes know each other."""
        self.data.trainer = self.trainer  # whose counters say where in the data training is
        return self.data.train_dataloader()

    def val_dataloader(self) -> DataLoader[Sample]:
        """The validation images."""
        return self.data.val_dataloader()[1]

    def configure_optimizers(self) -> Optimizer:
        """AdamW over groups that know their share of the learning rate, which every step writes."""
        head = {"params": list(self.head.parameters()), _SCALE: 1.0, _DECAY: self.recipe.weight_decay}
        groups = [*layer_groups(self.backbone.network, self.recipe), head]
        return AdamW(groups, lr=0.0, betas=(self.recipe.betas[0], self.recipe.betas[1]))

    def lr(self, step: int) -> float:
        """Of the last layers at a step."""
        recipe, progress = self.recipe, self.progress
        peak = recipe.base_lr * self.data.global_batch_size / 256
        schedule = WarmupCosine(0.0, peak, recipe.min_lr, recipe.warmup_epochs, "from_zero")
        return schedule(progress._replace(step=step))

    def on_train_batch_start(self, batch: Sample, batch_idx: int) -> None:
        """Writes the step's learning rates, and makes drop-path a function of seed, step, micro-batch and rank."""
        micro_batch = batch_idx % self.trainer.accumulate_grad_batches
        place = torch.tensor([micro_batch * self.trainer.world_size + self.global_rank])
        torch.manual_seed(int(hashes(self.seed, NETWORK_STREAM, torch.tensor([self.trainer.global_step]), place, 1)))
        lr = self.lr(self.trainer.global_step)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = lr * group[_SCALE]
        self.log("train/lr", lr)

    def training_step(self, batch: Sample, batch_idx: int) -> Tensor:
        """Mean cross-entropy of the labelled images."""
        (view,), _ = self.views(batch)  # [B, 3, S, S]
        logits = self(view.to(self.dtype)).float()
        loss = F.cross_entropy(logits, batch.labels, ignore_index=-1, label_smoothing=self.recipe.label_smoothing)
        self.log("train/loss", mean_over_ranks({"loss": loss.detach()})["loss"], prog_bar=True)
        return loss

    def on_validation_epoch_start(self) -> None:
        """Forgets a pass that was broken off."""
        self._counts = torch.zeros(2, dtype=torch.float64, device=self.device)

    def validation_step(self, batch: Sample, batch_idx: int) -> None:
        """Counts what is right."""
        logits = self(self.views.evaluation_view(batch.images).to(self.dtype))  # [B, C]
        counts = (batch.indices >= 0) & (batch.labels >= 0)  # duplicates of other processes count nothing
        right = (logits.argmax(dim=1) == batch.labels) & counts
        assert self._counts is not None, "a pass begins before its batches"
        self._counts += torch.stack([right.sum(), counts.sum()])

    def on_validation_epoch_end(self) -> None:
        """val/finetune_top1, over the images of all processes."""
        assert self._counts is not None, "a pass begins before it ends"
        right, num_val = sum_over_ranks(self._counts).tolist()
        self.top1, self.num_val = right / max(num_val, 1), int(num_val)
        self.log("val/finetune_top1", self.top1, prog_bar=True, sync_dist=True, reduce_fx="max")

    def on_train_epoch_end(self) -> None:
        """One line a pass; its validation is over by then."""
        if self.trainer.is_global_zero:
            latest = self.trainer.callback_metrics
            names = {"loss": "train/loss", "top-1": "val/finetune_top1"}
            shown = [f"{word} {float(latest[name]):.4g}" for word, name in names.items() if name in latest]
            epoch, epochs = (
                self.trainer.current_epoch + 1,
                -(-self.progress.total_steps // self.progress.steps_per_epoch),
            )
            logger.info("epoch %d/%d  %s", epoch, epochs, "  ".join(shown))


def layer_groups(network: nn.Module, recipe: FinetuningRecipe) -> list[dict[str, object]]:
    """Parameters of a timm model by layer, each with its share of the classifier's learning rate.

    The last block and the final norm learn at layer_decay of the classifier's rate, each block before at layer_decay of
    the next one's, the patch embedding and positions below all blocks. Biases, norms, the class token and positions are
    not decayed. Which layer a parameter is of is timm's knowledge.

    Paper: BEiT, arXiv 2106.08254, as MAE's util/lr_decay.py, which lets the final norm learn at the full rate.
    """
    groups: list[dict[str, object]] = param_groups_layer_decay(
        network,
        weight_decay=recipe.weight_decay,
        no_weight_decay_list=network.no_weight_decay() if isinstance(network, NamesUndecayed) else (),
        layer_decay=recipe.layer_decay,
    )
    return [
        {
            "params": group["params"],
            _SCALE: recipe.layer_decay
            * cast(float, group["lr_scale"]),  # timm's last layer is the one below our classifier
            _DECAY: group["weight_decay"],
        }
        for group in groups
    ]
