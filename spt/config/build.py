"""From a checked config to objects: the only caller of instantiate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning import Callback, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.loggers import Logger
from lightning.pytorch.plugins.environments import SLURMEnvironment
from lightning.pytorch.strategies import Strategy
from omegaconf import DictConfig, OmegaConf

from spt.backbones.backbone import Backbone, TokenBackbone
from spt.config.composer import INTERPRETED
from spt.config.errors import ConfigError
from spt.config.tree import Plain
from spt.data.module import ImageData
from spt.distributed.batch_norm import replace_batch_norm
from spt.launch.epoch_loop import replace_epoch_loop
from spt.method import Method
from spt.module import SSLModule
from spt.offline.finetuning import FinetuningRecipe
from spt.offline.linear_protocol import LinearProtocol
from spt.optim.recipe import OptimizerRecipe
from spt.pretrained.start import start_from
from spt.types import Masks, Progress, Sample
from spt.views.masks import MultiBlock
from spt.views.view import View
from spt.views.views import Views


def build_data(cfg: DictConfig) -> ImageData:
    """The data module of cfg.data."""
    return cast(ImageData, _made(cfg.data))


def build_backbone(cfg: DictConfig, *, is_resuming: bool = False) -> Backbone:
    """The backbone of cfg.backbone, its weights drawn from torch's global generator.

    Args:
        cfg: composed.
        is_resuming: its weights will come from a checkpoint; backbone.init_from is not read.

    Raises:
        ConfigError: backbone.init_from is of another network, or cannot be read.
    """
    # plain: a copy of a part of cfg would lose what its references lead to
    whole = cast("dict[str, object]", OmegaConf.to_container(cfg.backbone, resolve=True))
    node = {key: value for key, value in whole.items() if key not in INTERPRETED["backbone"]}
    backbone = cast(Backbone, _made(OmegaConf.create(node)))
    path = cast("str | None", whole.get("init_from"))
    if path is not None and not is_resuming:
        start_from(backbone, Path(path))
    return backbone


def rebuild_backbone(config: Mapping[str, Plain], *, drop_path: float = 0.0) -> Backbone:
    """The backbone of a stored config, whose weights will be replaced: none are downloaded.

    Args:
        config: resolved, and found to be trusted by spt.config.trust.
        drop_path: rate of stochastic depth at the last block, should it be trained further.

    Raises:
        ConfigError: there is no backbone in it, or it cannot be built here.
    """
    node = config.get("backbone")
    if not isinstance(node, dict) or "_target_" not in node:
        raise ConfigError("The stored config has no backbone._target_; it was not written by a run.")
    changes: dict[str, Plain] = {"drop_path": drop_path} if "drop_path" in node else {}
    if "pretrained" in node:
        changes["pretrained"] = False
    try:
        return build_backbone(OmegaConf.create({"backbone": {**node, **changes}}), is_resuming=True)
    except InstantiationException as error:
        raise ConfigError(f"The backbone of the stored config cannot be built here: {error}") from None


def build_recipe(cfg: DictConfig) -> FinetuningRecipe:
    """The numbers of cfg.recipe."""
    return cast(FinetuningRecipe, _made(cfg.recipe))


def build_augmentation(cfg: DictConfig) -> View:
    """The augmentation of cfg.augmentation."""
    return cast(View, _made(cfg.augmentation))


def build_finetuner(cfg: DictConfig, *, folder: Path, callbacks: list[Callback], loggers: Sequence[Logger]) -> Trainer:
    """Lightning's Trainer for a fine-tuning: the same settings, and no checkpoints."""
    return Trainer(
        **_settings(cfg),
        num_sanity_val_steps=0,
        callbacks=callbacks,
        logger=list(loggers),
        default_root_dir=folder,
        enable_checkpointing=False,
        enable_progress_bar=False,  # one line a pass
    )


def build_protocol(cfg: DictConfig) -> LinearProtocol:
    """The linear evaluation of cfg.protocol."""
    return cast(LinearProtocol, _made(cfg.protocol))


def build_method(cfg: DictConfig, *, is_resuming: bool = False) -> Method:
    """The method of cfg.method around the backbone of cfg.backbone, its weights drawn from torch's global generator."""
    backbone = build_backbone(cfg, is_resuming=is_resuming)
    # not as an argument of instantiate, which would make a config of the network
    make = cast("partial[Method]", _made(cfg.method, _partial_=True))
    if getattr(make.func, "needs_tokens", False) and not isinstance(backbone, TokenBackbone):
        name = cfg.method._target_.rpartition(".")[2]
        raise ConfigError(
            f"{name} predicts tokens, and {type(backbone).__name__} gives none: only vision transformers do; use "
            "backbone=vit_micro, or another backbone whose name starts with vit_."
        )
    method = make(backbone)
    if cfg.batch_norm.scope == "global":
        replace_batch_norm(method, across_ranks=True)
    return method


def build_module(cfg: DictConfig, *, is_resuming: bool = False) -> SSLModule:
    """The LightningModule with method, views, masks and optimizer recipe."""
    method = build_method(cfg, is_resuming=is_resuming)
    node = OmegaConf.select(cfg, "masks")
    if node is not None and node.get("patch_size", 1) is None:
        raise ConfigError(
            f"Masks lie on the grid of patches, and backbone.name={cfg.backbone.name} does not tell their size; use "
            "backbone.patch_size=16, or whatever pixels they have."
        )
    masks = _made(node)
    _check_grid(method, masks)
    return SSLModule(
        method,
        views=cast(Views, _made(cfg.views)),
        masks=cast("Callable[[Sample, Progress], Masks] | None", masks),
        recipe=cast(OptimizerRecipe, _made(cfg.optimizer)),
        seed=cfg.seed,
        freeze_steps=OmegaConf.select(cfg, "backbone.freeze_steps") or 0,
    )


def _check_grid(method: Method, masks: object) -> None:
    """Refuses masks on another grid than that of the backbone, and so of its predictor."""
    backbone = method.networks.backbone
    if not (isinstance(masks, MultiBlock) and isinstance(backbone, TokenBackbone)):
        return
    rows, columns = backbone.reference_grid
    if (rows, columns) != (masks.grid, masks.grid):
        raise ConfigError(
            f"Masks lie on a grid of {masks.grid} x {masks.grid} patches, and the backbone is made for {rows} x "
            f"{columns}; use backbone.image_size=N for its own views.global_size=N, or for a model of timm "
            "+backbone.options.img_size=N and, if its name does not tell them, the pixels of backbone.patch_size."
        )


def build_callbacks(cfg: DictConfig) -> list[Callback]:
    """Probes, the compiler, then the other callbacks, each in the order of its YAML."""
    compiler = [] if OmegaConf.select(cfg, "compile.scope") in (None, "off") else [cfg.compile]
    nodes = [*(cfg.probes or {}).values(), *compiler, *(cfg.callbacks or {}).values()]
    return [cast(Callback, _made(node)) for node in nodes if node is not None]


def build_loggers(cfg: DictConfig) -> list[Logger]:
    """The loggers of the logger group; metrics.csv is written whatever they are."""
    return [cast(Logger, _made(node)) for node in (cfg.logger or {}).values()]


def build_trainer(
    cfg: DictConfig, *, folder: Path, callbacks: list[Callback], loggers: Sequence[Logger], is_resuming: bool = False
) -> Trainer:
    """Lightning's Trainer, without what this project does itself: samplers, checkpoints, requeueing, summaries."""
    trainer = Trainer(
        **_settings(cfg),
        limit_val_batches=1.0 if cfg.probes else 0,
        # all of the validation set, before the first step: what the untrained network is worth
        num_sanity_val_steps=-1 if cfg.probes and not is_resuming else 0,
        callbacks=callbacks,
        logger=list(loggers),
        default_root_dir=folder,
        # Lightning would save wherever a signal finds it, and requeue; see spt.launch.stop
        plugins=[SLURMEnvironment(auto_requeue=False)] if SLURMEnvironment.detect() else None,
        enable_checkpointing=any(isinstance(callback, Checkpoint) for callback in callbacks),  # none but ours
        inference_mode=False,  # fully_shard of torch before 2.14 fails on its tensors
    )
    replace_epoch_loop(trainer)
    return trainer


def _settings(cfg: DictConfig) -> dict[str, Any]:
    """What Lightning's Trainer is told of cfg, whatever it trains; samplers and summaries are this project's own."""
    return {
        "accelerator": cfg.trainer.accelerator,
        "devices": cfg.trainer.devices,
        "num_nodes": cfg.trainer.num_nodes,
        "strategy": cast(Strategy, _made(cfg.strategy)),
        "precision": cfg.precision.name,
        "max_epochs": -1 if cfg.trainer.max_epochs is None else cfg.trainer.max_epochs,
        "max_steps": cfg.trainer.max_steps,
        "accumulate_grad_batches": cfg.trainer.accumulate_grad_batches,
        "check_val_every_n_epoch": cfg.trainer.check_val_every_n_epoch,
        "log_every_n_steps": cfg.trainer.log_every_n_steps,
        "deterministic": cfg.trainer.deterministic,
        "profiler": cfg.trainer.profiler,
        "use_distributed_sampler": False,
        "enable_model_summary": False,
    }


def _made(node: DictConfig | None, **options: bool) -> object:
    """What a node describes.

    Raises:
        ConfigError: of a constructor, in its own words.
    """
    try:
        return instantiate(node, _convert_="all", **options)
    except InstantiationException as error:
        if isinstance(error.__cause__, ConfigError):  # Hydra wraps it, and a user would see a traceback
            raise error.__cause__ from None
        raise
