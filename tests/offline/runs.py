"""One small run that is evaluated in many ways."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from spt.config.evaluated import read_source
from spt.config.evaluation import compose_evaluation
from spt.data.module import ImageData
from spt.evaluate import prepare
from spt.offline.embedder import Embedder, FeatureRows
from spt.offline.features import parse_features
from spt.offline.network import open_network
from spt.run import prepare as prepare_run
from spt.views.view import View
from tests.runs import compose

CPU = torch.device("cpu")
_kept = TemporaryDirectory()  # until the tests of this process are over

# 1437 images of real digits, of which the run sees little: its embeddings tell some of them apart, and not all
DIGITS = (
    "data=digits", "data.bank_size=150", "data.global_batch_size=64", "data.evaluation_batch_size=77",
    "data.source.val_share=0.1", "data.num_images=1617", "trainer.max_steps=4", "trainer.max_epochs=-1", "seed=3",
    "optimizer.rule=adamw", "optimizer.lr=0.002",
)  # fmt: skip


@cache
def trained(method: str = "simclr", *words: str) -> Path:
    """The folder of a run of four steps on digits, its probes' figures in metrics.csv; made once, to be read alone."""
    folder = Path(_kept.name) / "-".join([method, *(word.replace("=", "_") for word in words)])
    backbone = ("backbone=vit_micro", "backbone.embed_dim=16", "backbone.depth=2")
    run = prepare_run(compose(method, folder, "~recipe", *words, data=DIGITS, backbone=backbone))
    run.fit()
    return folder


def copy_of_trained(folder: Path, *words: str) -> Path:
    """A run of SimCLR in a folder that may be written to."""
    shutil.copytree(trained("simclr", *words), folder, ignore=shutil.ignore_patterns("evaluation"))
    return folder


def embedder(folder: Path, *features: str, augmentation: View | None = None, data: ImageData | None = None) -> Embedder:
    """Of a run's last checkpoint."""
    network = open_network(read_source(str(folder)), checkpoint="last", pretrained=False, packages=[])
    made = Embedder(
        network, augmentation=augmentation, features=parse_features(features, network.backbone), precision="32-true",
        device=CPU, seed=0,
    )  # fmt: skip
    if data is not None:
        data.attach(made.views)
    return made


def data_of(folder: Path) -> ImageData:
    """The run's own."""
    return prepare(compose_evaluation("knn", f"source={folder}")).data


def random_rows(num: int, dim: int, num_classes: int, *, seed: int = 0) -> FeatureRows:
    """Features that tell something about their labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_classes, (num,), generator=generator)
    centers = torch.randn(num_classes, dim, generator=torch.Generator().manual_seed(99))
    features = centers[labels] + torch.randn(num, dim, generator=generator)
    return FeatureRows({"embedding": features}, labels, torch.arange(num))
