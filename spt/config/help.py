"""What `python train.py --help` says. Printed from folder listings, before Hydra is imported."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import wrap

CONF = Path(__file__).resolve().parents[2] / "conf"

GROUPS = {
    "method": "how views become a loss",
    "backbone": "the network that is pretrained",
    "data": "images, their size, the global batch",
    "views": "augmentations; a method chooses its own",
    "masks": "hidden tokens, for masked methods",
    "optimizer": "update rule, learning rate, its schedule",
    "strategy": "how devices share the work",
    "precision": "number formats, in Lightning's words",
    "batch_norm": "whose images BatchNorm's statistics are of",
    "compile": "torch.compile of blocks or of the whole step",
    "probes": "what measures the embedding during training",
    "callbacks": "progress, checkpoints, pictures",
    "logger": "where metrics go besides metrics.csv",
    "trainer": "length of the run, devices, accumulation",
    "paths": "where runs and data sets are",
    "recipe": "fits a method to small data and a small network; chosen by all three",
    "experiment": "a full recipe: method, backbone, data and numbers",
    "debug": "short runs to look for faults",
    "hydra/sweeper": "which jobs python train.py -m runs",
    "hydra/launcher": "where they run",
}

OF_SCRIPTS = ("evaluation",)
"""Folders whose options train.py does not take."""

TEXT = """\
Self-supervised pretraining of vision models. One command, one run folder with metrics, checkpoints and plots.

    python train.py [group=option ...] [key=value ...]

Groups and their options (a whole file each, conf/GROUP/OPTION.yaml):
{groups}

Five useful commands:
  python train.py                                         a first run on embedded data, a minute and a half on two cores
  python train.py method=dino data=fashion_mnist          another method, other images
  python train.py trainer.max_epochs=5 optimizer.lr=2e-3  any key; ~callbacks.NAME takes a node away
  python train.py -m method=dino,byol seed=1,2,3          a run for every combination
  python train.py method=dino --cfg job --resolve         the config with every number filled in

After training: python scripts/knn.py source=RUN_FOLDER, and linear_probe.py, finetune.py, extract_features.py.
Read on: README.md, conf/config.yaml (the table of contents), CONTRIBUTING.md (add a method, backbone, data set).
Hydra's own flags: python train.py --hydra-help
"""


def help_text(conf: Path = CONF) -> str:
    """The whole help, with the options that exist in a conf folder."""
    known = [group for group in GROUPS if (conf / group).is_dir()]
    explained = {group.split("/")[0] for group in (*GROUPS, *OF_SCRIPTS)}
    others = sorted(name for name in os.listdir(conf) if (conf / name).is_dir() and name not in explained)
    lines = [line for group in [*known, *others] for line in _group_lines(conf, group)]
    return TEXT.format(groups="\n".join(lines))


def _group_lines(conf: Path, group: str) -> list[str]:
    options = sorted(name.removesuffix(".yaml") for name in os.listdir(conf / group) if name.endswith(".yaml"))
    meaning = f"  {group:<13} {GROUPS.get(group, '')}".rstrip()
    return [
        meaning,
        *wrap(" ".join(options), 104, initial_indent=" " * 16, subsequent_indent=" " * 16, break_on_hyphens=False),
    ]
