"""The command line's config in a notebook, a script or a test."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from spt.config.composer import open_composer
from spt.config.resumed import expanded
from spt.config.tree import ConfigTree, project_tree


def compose(*overrides: str, config_dir: str | Path | None = None) -> DictConfig:
    """The config that `python train.py OVERRIDES` would run, checked alike, from any working directory.

    References are resolved, so that the config stays what it is when another one is composed. The run folder is named,
    not made. HydraConfig holds the options chosen, of the config composed last.

    Args:
        overrides: as on the command line, for example "method=dino", "optimizer.lr=0.1".
        config_dir: a folder with further options of the groups, as `python train.py -cd FOLDER`.

    Raises:
        ConfigError: everything that is wrong with the overrides or their combination, in the command line's words.
    """
    tree = project_tree()
    if config_dir is not None:
        tree = ConfigTree((*tree.folders, Path(config_dir).resolve()), tree.name)
    with open_composer(tree) as composer:
        cfg = composer.compose(composer.read(expanded(overrides), multirun=False), job=0)
    with read_write(cfg), open_dict(cfg):
        del cfg["hydra"]  # read-only, and no part of what a run sees
    OmegaConf.resolve(cfg)
    return cfg
