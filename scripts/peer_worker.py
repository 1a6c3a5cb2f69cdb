"""One contestant of bench_peers.py, in the environment of its own library: trains some steps whenever it is told to.

    python scripts/peer_worker.py ours simclr --batch 64 --threads 1 --steps 5

Says "ready" once it has warmed up; then, for every line that it reads, takes that many steps and answers with seconds.
All have one backbone (timm's vit_tiny, patches of 8 pixels), the same heads, crops, AdamW, float32, and one set of
random tensors in place of views; I-JEPA also the same positions in place of masks.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from scripts.timing import Stopwatch

METHODS = ("simclr", "byol", "dino", "ijepa")
SIZE, PATCH, LOCAL, NUM_LOCAL, PROTOTYPES, WARMUP = 32, 8, 16, 6, 4096, 3
GRID = SIZE // PATCH  # patches along a side
TARGETS = (4, 5, 6, 8, 9, 10)  # one block of 2 x 3 patches; all others are context
PREDICTOR_DIM, PREDICTOR_DEPTH, HEADS = 192, 6, 3  # of I-JEPA's predictor, whose heads are vit_tiny's


class Baton:
    """Lets a training loop run while it is this process's turn.

    Args:
        answers: where to answer.
        steps: of one turn.
    """

    def __init__(self, answers: TextIO, steps: int) -> None:
        self.answers, self.steps, self.left = answers, steps, WARMUP
        self.watch: Stopwatch | None = None

    def after_step(self) -> None:
        """Waits here when the turn is over; ends the process when no more turns come."""
        self.left -= 1
        if self.left:
            return
        answer = "ready" if self.watch is None else json.dumps(self.watch.lap(self.steps))
        print(answer, file=self.answers, flush=True)
        if not sys.stdin.readline():
            raise SystemExit
        self.left, self.watch = self.steps, Stopwatch()


def views_of(method: str, batch: int) -> tuple[list[Tensor], list[Tensor]]:
    """Global views [B, 3, 32, 32], one for I-JEPA and two for others, and, for DINO, local ones [B, 3, 16, 16]."""
    generator = torch.Generator().manual_seed(0)
    num_global = 1 if method == "ijepa" else 2
    sizes = [SIZE] * num_global + [LOCAL] * (NUM_LOCAL if method == "dino" else 0)
    views = [torch.randn(batch, 3, size, size, generator=generator) for size in sizes]
    return views[:num_global], views[num_global:]


def positions_of(batch: int) -> tuple[Tensor, Tensor]:
    """Context [B, 10] and one block of targets [1, B, 6] of every image, in place of I-JEPA's masks."""
    context = [place for place in range(GRID**2) if place not in TARGETS]
    return torch.tensor(context).repeat(batch, 1), torch.tensor(TARGETS).repeat(1, batch, 1)


def words_of(method: str, batch: int) -> list[str]:
    """What this project's run is composed of."""
    own = {
        "simclr": ["method.head.hidden_dim=2048", "method.head.output_dim=128"],
        "byol": [],
        "dino": [f"method.num_prototypes={PROTOTYPES}", f"views.num_local_views={NUM_LOCAL}",
                 "method.freeze_last_layer_epochs=0", "optimizer.clip_norm=null"],
        "ijepa": [f"method.predictor.predictor_dim={PREDICTOR_DIM}", f"method.predictor.depth={PREDICTOR_DEPTH}",
                  "masks.min_keep=2"],
    }[method]  # fmt: skip
    return [
        f"method={method}", "data=fake", f"data.image_size={SIZE}", f"data.num_images={10**4 * batch}",
        f"data.global_batch_size={batch}", "backbone=vit_tiny", f"backbone.patch_size={PATCH}", "probes=none",
        "optimizer.rule=adamw", "optimizer.lr=0.001", "optimizer.lr_schedule.warmup_epochs=0",
        "~callbacks.pictures", "trainer.accelerator=cpu", "trainer.max_epochs=1", *own,
    ]  # fmt: skip


class Endless(torch.utils.data.IterableDataset[int]):
    """Numbers, for loops that want a loader."""

    def __iter__(self) -> Iterator[int]:
        """Many."""
        return iter(range(10**6))


def backbone(method: str) -> nn.Module:
    """timm's network; for I-JEPA with patches alone, else with a class token and for crops of any size."""
    import timm

    how: dict[str, object] = {"dynamic_img_size": True}
    if method == "ijepa":
        how = {"class_token": False, "global_pool": "avg", "fc_norm": False}
    return timm.create_model("vit_tiny_patch16_224", num_classes=0, img_size=SIZE, patch_size=PATCH, **how)


def ours(method: str, batch: int, baton: Baton) -> None:
    """A whole run of this project without probes, its views replaced by ready ones."""
    from lightning import Callback

    import spt
    from spt.run import prepare
    from spt.types import Masks

    class Turns(Callback):
        def on_train_batch_end(self, *_: object) -> None:
            baton.after_step()

    class Ready(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.views = views_of(method, batch)

        def forward(self, sample: object) -> tuple[list[Tensor], list[Tensor]]:
            return self.views

    with tempfile.TemporaryDirectory() as folder:
        run = prepare(spt.compose(*words_of(method, batch), f"hydra.run.dir={folder}"))
        run.module.views = Ready()  # type: ignore[assignment]
        if method == "ijepa":
            masks = Masks(*positions_of(batch))
            run.module.masks = lambda sample, progress: masks
        run.trainer.callbacks.append(Turns())  # type: ignore[attr-defined]
        run.trainer.fit(run.module, datamodule=run.data)


def stable_pretraining(method: str, batch: int, baton: Baton) -> None:
    """Its method class in a LightningModule, as the docstrings of its methods show."""
    import lightning as pl
    from stable_pretraining.callbacks import TeacherStudentCallback

    globals_, locals_ = views_of(method, batch)

    class Training(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = _of_stable_pretraining(method, batch)

        def training_step(self, number: object, batch_idx: int) -> Tensor:
            views = (globals_, locals_) if method == "dino" else globals_
            loss = self.model(*views).loss
            self.log("train/loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], lr=0.001)

        def on_train_batch_end(self, *_: object) -> None:
            baton.after_step()

    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[TeacherStudentCallback()],
    )  # fmt: skip
    trainer.fit(Training(), DataLoader(Endless(), batch_size=None))


def _of_stable_pretraining(method: str, batch: int) -> nn.Module:
    """Its method class; I-JEPA's masks are replaced by ready ones."""
    from stable_pretraining import methods
    from stable_pretraining.backbone.patch_masking import IJEPAMaskOutput

    class Ready(nn.Module):
        def forward(self, tokens: Tensor, rows: int, columns: int) -> IJEPAMaskOutput:
            return IJEPAMaskOutput(context_idx=context, target_idx=targets[0], target_block_masks=[], mask=None)

    if method == "dino":
        return methods.DINO(backbone(method), n_prototypes=PROTOTYPES)
    if method == "byol":
        return methods.BYOL(backbone(method))
    if method == "simclr":
        return methods.SimCLR(backbone(method), projector_dims=(2048, 2048, 128), temperature=0.1)
    context, targets = positions_of(batch)
    model = methods.IJEPA(
        backbone(method), predictor_embed_dim=PREDICTOR_DIM, predictor_depth=PREDICTOR_DEPTH, num_targets=1
    )
    model.masking = Ready()
    return model


def lightly(method: str, batch: int, baton: Baton) -> None:
    """The plain PyTorch loop of its examples, over its heads and losses."""
    from lightly.models.utils import update_momentum

    if method == "ijepa":
        return _ijepa_of_lightly(batch, baton)
    globals_, locals_ = views_of(method, batch)
    networks, teacher, criterion = _of_lightly(method)
    optimizer = torch.optim.AdamW([p for p in networks.parameters() if p.requires_grad], lr=0.001)
    while True:
        if teacher is not None:
            update_momentum(networks[0], teacher[0], m=0.996)
            update_momentum(networks[1], teacher[1], m=0.996)
        outputs = [networks[1](networks[0](view)) for view in [*globals_, *locals_]]
        if teacher is None:
            loss = criterion(*outputs)
        else:
            with torch.no_grad():
                targets = [teacher[1](teacher[0](view)) for view in globals_]
            if method == "byol":
                first, second = (networks[2](output) for output in outputs)
                loss = 0.5 * (criterion(first, targets[1]) + criterion(second, targets[0]))
            else:
                loss = criterion(targets, outputs, epoch=0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        baton.after_step()


def _of_lightly(method: str) -> tuple[nn.ModuleList, nn.ModuleList | None, Callable[..., Tensor]]:
    """Backbone, head and, for BYOL, predictor; the teacher's backbone and head; the loss."""
    import copy

    from lightly import loss as losses
    from lightly.models import modules
    from lightly.models.utils import deactivate_requires_grad

    heads: dict[str, Callable[[], nn.Module]] = {
        "simclr": lambda: modules.SimCLRProjectionHead(192, 2048, 128, num_layers=3),
        "byol": lambda: modules.BYOLProjectionHead(192, 4096, 256),
        "dino": lambda: modules.DINOProjectionHead(192, 2048, 256, PROTOTYPES),
    }
    criteria: dict[str, Callable[[], Callable[..., Tensor]]] = {
        "simclr": lambda: losses.NTXentLoss(temperature=0.1),
        "byol": losses.NegativeCosineSimilarity,
        "dino": lambda: losses.DINOLoss(output_dim=PROTOTYPES),
    }
    networks = nn.ModuleList([backbone(method), heads[method]()])
    teacher = None
    if method != "simclr":  # as in its examples: a copy of the backbone, a head of its own
        teacher = nn.ModuleList([copy.deepcopy(networks[0]), heads[method]()])
        deactivate_requires_grad(teacher)
    if method == "byol":
        networks.append(modules.BYOLPredictionHead(256, 4096, 256))
    return networks, teacher, criteria[method]()


def _ijepa_of_lightly(batch: int, baton: Baton) -> None:
    """The loop of its I-JEPA example, over its masked backbone and its predictor for timm's blocks."""
    import copy

    from lightly.models import modules, utils

    (images,), _ = views_of("ijepa", batch)
    context, (targets,) = positions_of(batch)
    student = modules.MaskedVisionTransformerTIMM(vit=backbone("ijepa"))
    predictor = modules.IJEPAPredictorTIMM(
        num_patches=GRID**2, depth=PREDICTOR_DEPTH, mlp_dim=192, predictor_embed_dim=PREDICTOR_DIM, num_heads=HEADS
    )
    teacher = copy.deepcopy(student)
    utils.deactivate_requires_grad(teacher)
    moved = [p for network in (student, predictor) for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(moved, lr=0.001)
    while True:
        utils.update_momentum(student, teacher, m=0.996)
        with torch.no_grad():
            tokens = teacher.encode(images)
            hidden = utils.apply_masks(nn.functional.layer_norm(tokens, tokens.shape[-1:]), [targets])
        predicted = predictor(student.encode(images, idx_keep=context), [context], [targets])
        loss = nn.functional.smooth_l1_loss(predicted, hidden)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        baton.after_step()


WORKERS = {"ours": ours, "stable-pretraining": stable_pretraining, "lightly": lightly}


def main() -> None:
    """Trains until no more turns come."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("who", choices=WORKERS)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries talk
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    WORKERS[arguments.who](arguments.method, arguments.batch, Baton(answers, arguments.steps))


if __name__ == "__main__":
    main()
