"""Evaluations after training, from config to result: open the network, measure, write the figures beside the run."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import torch
from omegaconf import DictConfig, OmegaConf

from spt.config.build import build_augmentation, build_data, build_finetuner, build_protocol, build_recipe
from spt.config.evaluated import Source, read_source
from spt.config.handover import run_choices
from spt.config.tree import Plain
from spt.data.module import ImageData
from spt.launch.callback import Rank
from spt.offline.embedder import Embedder, choose_device, make_views
from spt.offline.extraction import Extracted, extract
from spt.offline.features import parse_features
from spt.offline.finetuning import Finetuning
from spt.offline.knn import knn_accuracies
from spt.offline.linear_probe import linear_probe as measure_linear
from spt.offline.network import Network, open_network
from spt.offline.results import online_value, write_result, write_to_wandb
from spt.reporting.metrics_file import MetricsFile
from spt.reporting.quiet import quiet
from spt.views.view import View

logger = logging.getLogger(__name__)


class Evaluation(NamedTuple):
    """What all evaluations have.

    Attributes:
        cfg: composed and checked.
        source: as it was typed.
        network: opened.
        data: set up, without views.
        started_at: of the clock.
    """

    cfg: DictConfig
    source: Source
    network: Network
    data: ImageData
    started_at: float

    @property
    def precision(self) -> str:
        """That the network runs in."""
        return str(OmegaConf.select(self.cfg, "precision.name") or self.network.precision)

    @property
    def name(self) -> str:
        """Of the result. Other data than the run's, a checkpoint or export that is named: each is another result."""
        data, path = run_choices()["data"], self.source.path
        words = [str(self.cfg.name)]
        words += [data] if self.source.data != data else []
        if path is not None and path.resolve() != self.source.run_folder:
            words.append(str(self.network.facts.get("checkpoint", path.name)).rpartition(".")[0] or path.name)
        elif self.cfg.checkpoint != "last":
            words.append(str(self.network.facts["checkpoint"]).rpartition(".")[0])
        return "-".join(words)

    def embedder(self, features: Sequence[str], *, augmentation: View | None = None) -> Embedder:
        """The network with its views, which the data's workers know from here on.

        Args:
            features: choices of layers, see spt.offline.features.
            augmentation: of training passes; None for none.

        Raises:
            ConfigError: the network does not have such layers, or there is no such device or precision.
        """
        made = Embedder(
            self.network,
            augmentation=augmentation,
            features=parse_features(features, self.network.backbone),
            precision=self.precision,
            device=choose_device(self.cfg.device),
            seed=self.cfg.seed,
        )
        self.data.attach(made.views)
        return made


def prepare(cfg: DictConfig, *, drop_path: float = 0.0) -> Evaluation:
    """Opens the network and the data set.

    Raises:
        ConfigError: one of them cannot be used.
    """
    quiet()
    started_at = time.monotonic()
    source = read_source(cfg.source)
    network = open_network(
        source, checkpoint=cfg.checkpoint, pretrained=cfg.pretrained, packages=list(cfg.trust), drop_path=drop_path
    )
    torch.set_float32_matmul_precision(_matmul(cfg, source))
    data = build_data(cfg)
    data.prepare_data()
    return Evaluation(cfg, source, network, data, started_at)


def _matmul(cfg: DictConfig, source: Source) -> str:
    """How float32 is multiplied on a GPU: as the run did, or as cfg.precision says; in full where neither tells."""
    stored = source.config().get("precision")
    known = stored.get("matmul") if isinstance(stored, dict) else None
    return str(OmegaConf.select(cfg, "precision.matmul") or known or "highest")


def knn(cfg: DictConfig) -> float:
    """k-NN accuracy with the run's own bank and validation images.

    Returns:
        Top-1 with cfg.reported_k neighbours, in [0, 1].

    Raises:
        ConfigError: the network or the data cannot be used.
    """
    evaluation = prepare(cfg)
    embedder = evaluation.embedder([cfg.features])
    bank, val = (embedder.rows(loader).rows(cfg.features) for loader in evaluation.data.val_dataloader())
    ks = list(dict.fromkeys([*cfg.k, cfg.reported_k]))
    accuracies = knn_accuracies(bank, val, ks=ks, temperature=cfg.temperature, num_classes=evaluation.data.num_classes)
    measured = {f"k={k}": value for k, value in accuracies.items()}
    split = f"{len(val.labelled().labels)} validation images, bank of {len(bank.labelled().labels)} training images"
    return _report(
        evaluation,
        metric="knn_top1",
        value=accuracies[cfg.reported_k],
        split=split,
        details={"k": cfg.reported_k, "accuracies": measured},
        line=f"k-NN top-1 {accuracies[cfg.reported_k]:.4f} with k={cfg.reported_k}"
        + "".join(f", {value:.4f} with {k}" for k, value in accuracies.items() if k != cfg.reported_k),
    )


def linear_probe(cfg: DictConfig) -> float:
    """Accuracy of a linear classifier by the protocol of cfg.protocol.

    Returns:
        Top-1 on the validation images, in [0, 1].

    Raises:
        ConfigError: the network or the data cannot be used, or the protocol asks for what they do not have.
    """
    evaluation = prepare(cfg)
    protocol = build_protocol(cfg)
    embedder = evaluation.embedder(protocol.features, augmentation=protocol.augmentation)
    result = measure_linear(embedder, evaluation.data, protocol, held_out=cfg.held_out, refit=cfg.refit, seed=cfg.seed)
    return _report(
        evaluation,
        metric="linear_top1",
        value=result.top1,
        split=result.split,
        details={
            "protocol": run_choices()["protocol"],
            "features": result.features,
            "base_lr": result.base_lr,
            "chosen_by": result.chosen_by,
            "candidates": [candidate._asdict() for candidate in result.candidates],
        },
        line=f"linear top-1 {result.top1:.4f} with {result.features}, base_lr {result.base_lr:g}",
    )


def finetune(cfg: DictConfig) -> float:
    """Accuracy of the whole network after it has learnt from labels; on one of `trainer.devices` processes.

    Returns:
        Top-1 on the validation images after the last pass, in [0, 1].

    Raises:
        ConfigError: the network or the data cannot be used.
    """
    recipe = build_recipe(cfg)
    evaluation = prepare(cfg, drop_path=recipe.drop_path)
    data, network = evaluation.data, evaluation.network
    views = make_views(network, build_augmentation(cfg), seed=cfg.seed)
    data.attach(views)
    module = Finetuning(network.backbone, views=views, data=data, recipe=recipe, seed=cfg.seed).train()
    folder = Path(cfg.folder) / "evaluation" / evaluation.name
    trainer = build_finetuner(cfg, folder=folder, callbacks=[Rank(folder)], loggers=[MetricsFile(folder)])
    trainer.fit(module)
    if trainer.current_epoch % cfg.trainer.check_val_every_n_epoch or not module.num_val:
        trainer.validate(module, verbose=False)
    if not trainer.is_global_zero:
        return module.top1
    return _report(
        evaluation,
        metric="finetune_top1",
        value=module.top1,
        split=f"{module.num_val} validation images, learnt from {len(data.splits.train.labels)} training images",
        details={
            "epochs": trainer.current_epoch,
            "steps": trainer.global_step,
            "world_size": trainer.world_size,
            "strategy": run_choices()["strategy"],
        },
        line=f"fine-tuned top-1 {module.top1:.4f}",
    )


def extract_features(cfg: DictConfig) -> Extracted:
    """Writes features of a split to files, those that are there already left out.

    Raises:
        ConfigError: the network or the data cannot be used, or the folder holds other features.
    """
    evaluation = prepare(cfg)
    data, network = evaluation.data, evaluation.network
    embedder = evaluation.embedder([cfg.features])
    images = OmegaConf.to_container(cfg.data.source, resolve=True)
    shards = Path(cfg.folder) / "evaluation" / evaluation.name
    result = extract(
        embedder,
        data,
        split=cfg.split,
        folder=shards,
        shard_format=cfg.format,
        shard_size=cfg.shard_size,
        dtype=cfg.dtype,
        identity={
            **network.facts,
            "source": Path(str(cfg.source)).name,
            "precision": evaluation.precision,
            "data": run_choices()["data"],
            "images": images,
        },
    )
    seconds = time.monotonic() - evaluation.started_at
    content = {**network.facts, **result._asdict(), "folder": str(shards), "seconds": round(seconds, 2)}
    config = OmegaConf.to_container(cfg, resolve=True)
    write_result(shards.with_name(f"{shards.name}.json"), {**content, "config": config})
    there = f", {result.num_skipped} of them there already" if result.num_skipped else ""
    logger.info("%d images in %d shards%s\n%s", result.num_images, result.num_shards, there, shards)
    return result


def _report(
    evaluation: Evaluation, *, metric: str, value: float, split: str, details: Mapping[str, object], line: str
) -> float:
    """Writes a figure down in all places, and gives it back."""
    cfg, network, source = evaluation.cfg, evaluation.network, evaluation.source
    is_own_data = run_choices()["data"] == source.data
    online = online_value(source.run_folder, f"val/{metric}", network.step) if is_own_data else None
    path = Path(cfg.folder) / "evaluation" / f"{evaluation.name}.json"
    seconds = time.monotonic() - evaluation.started_at
    write_result(
        path,
        {
            "metric": metric,
            "value": value,
            "online": online,
            "split": split,
            "data": run_choices()["data"],
            **network.facts,
            "precision": evaluation.precision,
            **details,
            "seconds": round(seconds, 2),
            "versions": {"torch": str(torch.__version__)},
            "config": OmegaConf.to_container(cfg, resolve=True),
        },
    )
    config = cast("Mapping[str, Plain]", source.config())
    write_to_wandb(source.run_folder, config, {f"evaluation/{evaluation.name}": value})
    beside = "" if online is None else f"; the run's own probe: {online:.4f}"
    logger.info("%s (%s)%s\n%s", line, split, beside, path)
    return value
