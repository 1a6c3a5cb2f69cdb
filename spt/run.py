"""One experiment from config to result: check, build, fit, report."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import cast

import torch
from lightning import Trainer, seed_everything
from omegaconf import DictConfig, OmegaConf

from spt.callbacks.throughput import Throughput
from spt.checkpoint.card import Card, ids_in
from spt.checkpoint.resume import checkpoint_to_resume
from spt.config.build import build_callbacks, build_data, build_loggers, build_module, build_trainer
from spt.config.check import check
from spt.config.facts import Facts, RunFolder
from spt.config.gathering import gather_facts
from spt.config.handover import run_choices, run_folder
from spt.data.module import ImageData
from spt.launch.callback import Rank
from spt.launch.stop import Preempted, Stop, StopSignals
from spt.module import SSLModule
from spt.reporting.atomic import write_text
from spt.reporting.closing import finish
from spt.reporting.metrics_file import MetricsFile
from spt.reporting.plots import plot_curves
from spt.reporting.quiet import quiet
from spt.reporting.start import last_line, resume_block, start_block
from spt.reporting.summary import Status, Summary, write_summary
from spt.reporting.wandb import adopt_ids, run_ids

logger = logging.getLogger(__name__)

CONFIG_FILE = "config_resolved.yaml"


def train(cfg: DictConfig) -> float | None:
    """Runs the experiment that `cfg` describes, in the run folder that Hydra has chosen.

    Args:
        cfg: composed by train.py or `spt.compose`.

    Returns:
        val/knn_top1 at the end, for sweeps; None when no probe measured it.

    Raises:
        ConfigError: the experiment cannot work; says what to type instead.
        NonFiniteLossError: the loss became infinite or not a number.
    """
    return prepare(cfg).fit()


def prepare(cfg: DictConfig) -> Run:
    """The experiment, checked and built, its weights and its order of images drawn from `cfg.seed`.

    Raises:
        ConfigError: the experiment cannot work; says what to type instead.
    """
    quiet()
    facts = gather_facts(cfg, run_choices(), RunFolder(Path(run_folder()), is_new=False))
    warnings = check(facts)
    seed_everything(cfg.seed, workers=True, verbose=False)
    torch.set_float32_matmul_precision(cfg.precision.matmul)
    data = build_data(cfg)
    data.prepare_data()
    data.setup("fit")
    facts = facts.with_data(len(data.splits.train.labels))
    check(facts)  # again, now that the images are counted
    for warning in warnings:
        logger.warning(warning)
    return Run(cfg, data, facts)


class Run:
    """A built experiment with its run folder.

    Args:
        cfg: composed and checked.
        data: set up.
        facts: with the images counted.
    """

    def __init__(self, cfg: DictConfig, data: ImageData, facts: Facts) -> None:
        self.cfg = cfg
        self.facts = facts
        self.choices = run_choices()
        self.folder = Path(run_folder())
        self.data = data
        self.checkpoint = checkpoint_to_resume(cfg.resume, self.folder)
        self.module: SSLModule = build_module(cfg, is_resuming=self.checkpoint is not None)
        self.data.attach(self.module.views, self.module.with_masks)
        self.config_text = OmegaConf.to_yaml(cfg, resolve=True)
        self._adopt_ids()
        self.signals = StopSignals()
        self.metrics_file = MetricsFile(self.folder)
        loggers = [self.metrics_file, *build_loggers(cfg)]  # before the card: they choose the ids that it carries
        self.throughput = Throughput(log_every_n_steps=cfg.trainer.log_every_n_steps)
        self.trainer: Trainer = build_trainer(
            cfg,
            folder=self.folder,
            callbacks=[
                Rank(self.folder),
                self.throughput,
                *build_callbacks(cfg),
                Card(self.config_text, self.choices, run_ids(self.folder)),
                Stop(self.signals),
            ],
            loggers=loggers,
            is_resuming=self.checkpoint is not None,
        )
        self.started_at = time.monotonic()

    def fit(self) -> float | None:
        """Trains, evaluates, and leaves summary.json and the curves whatever happens."""
        write_text(self.folder / CONFIG_FILE, self.config_text)
        logger.info(self._start_block())
        if self.checkpoint is not None:
            changes = [(change.key, change.before, change.now) for change in self.facts.resume_changes]
            logger.info(resume_block(self.checkpoint, changes))
        status: Status = "failed"
        error: str | None = "interrupted"
        exit_code = 1
        try:
            with self.signals:
                self._log_config()
                self.trainer.fit(self.module, datamodule=self.data, ckpt_path=self.checkpoint)
                self._evaluate_the_end()
            status, error, exit_code = "completed", None, 0
        except (KeyboardInterrupt, SystemExit) as end:
            status, error = "preempted", None
            exit_code = end.code if isinstance(end, Preempted) and isinstance(end.code, int) else 130
            if self.trainer.is_global_zero and self.trainer.global_step:
                logger.info("stopped after step %d; to go on: resume=%s", self.trainer.global_step, self.folder)
            raise SystemExit(exit_code) from None
        except Exception as exception:
            error = f"{type(exception).__name__}: {exception}"
            raise
        finally:
            finish(exit_code)
            self._report(status, error)
        logger.info(
            last_line(folder=self.folder, at_start=self.module.metrics_at_start, metrics=self.metrics_file.latest)
        )
        return self.metrics_file.latest.get("val/knn_top1")

    def _adopt_ids(self) -> None:
        """Goes on in the same run of a logger where nothing but the folder is new; a changed run is another one."""
        if self.checkpoint is None or self.facts.resume_changes:
            return
        if (self.checkpoint.parent.parent / CONFIG_FILE).is_file():  # else nothing tells what has changed
            adopt_ids(self.folder, ids_in(self.checkpoint))

    def _log_config(self) -> None:
        config = cast("dict[str, object]", OmegaConf.to_container(self.cfg, resolve=True))
        for taker in self.trainer.loggers:
            taker.log_hyperparams(config)

    def _start_block(self) -> str:
        data = self.cfg.data
        accumulated = self.cfg.trainer.accumulate_grad_batches
        return start_block(
            method=self.choices["method"],
            backbone=self.choices["backbone"],
            num_parameters=sum(parameter.numel() for parameter in self.module.method.networks.backbone.parameters()),
            data=self.choices["data"],
            num_images=len(self.data.splits.train.labels),
            strategy=self.choices["strategy"],
            precision=self.choices["precision"],
            accelerator=self.trainer.accelerator.name(),
            world_size=self.trainer.world_size,
            batch_size_per_device=data.global_batch_size // (self.trainer.world_size * accumulated),
            accumulate_grad_batches=accumulated,
            lr=self.cfg.optimizer.lr,
            total_steps=self.facts.total_steps or 0,
            steps_per_epoch=self.facts.steps_per_epoch or 0,
            folder=self.folder,
        )

    def _evaluate_the_end(self) -> None:
        """Once more where the run ended between two evaluations."""
        every = self.cfg.trainer.check_val_every_n_epoch * self.module.progress.steps_per_epoch
        if self.cfg.probes and self.trainer.global_step % every:
            self.trainer.validate(self.module, datamodule=self.data, verbose=False)

    def _report(self, status: Status, error: str | None) -> None:
        if not self.trainer.is_global_zero:
            return
        write_summary(
            self.folder,
            Summary(
                status=status,
                method=self.choices["method"],
                backbone=self.choices["backbone"],
                data=self.choices["data"],
                strategy=self.choices["strategy"],
                precision=self.choices["precision"],
                world_size=self.trainer.world_size,
                global_batch_size=self.cfg.data.global_batch_size,
                epochs=self.trainer.current_epoch,
                steps=self.trainer.global_step,
                seconds=time.monotonic() - self.started_at,
                images_per_second=self.throughput.images_per_second,
                metrics_at_start=self.module.metrics_at_start,
                metrics=self.metrics_file.latest,
                error=error,
            ),
        )
        plot_curves(self.folder)
