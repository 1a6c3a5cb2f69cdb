"""A composed config as text, for processes that run it without composing it again."""

from __future__ import annotations

import logging
import os
from typing import cast

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import configure_log
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf

from spt.config.resolvers import register
from spt.config.sweep import own_words

# of the hydra node, what a run reads
_HYDRA_KEYS = ("job_logging", "runtime", "verbose")


def write_config(cfg: DictConfig) -> str:
    """YAML of a config and of the part of HydraConfig that its run reads, the run folder included.

    References are resolved: a time or an environment variable means the same wherever the text is read.
    """
    run = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(run, dict)
    run.pop("hydra", None)
    hydra = HydraConfig.get()
    kept = OmegaConf.create(
        {"hydra": {key: _plain(OmegaConf.select(cast(DictConfig, hydra), key)) for key in _HYDRA_KEYS}}
    )
    OmegaConf.resolve(kept)  # on its own: the config that HydraConfig came from may have lost its hydra node
    return OmegaConf.to_yaml(OmegaConf.create({"run": run, "hydra": kept.hydra}))


def _plain(value: object) -> object:
    return OmegaConf.to_container(value) if isinstance(value, (DictConfig, ListConfig)) else value


def read_config(text: str) -> DictConfig:
    """The config that `write_config` wrote; HydraConfig holds its run folder and choices from here on."""
    register()
    both = OmegaConf.create(text)
    assert isinstance(both, DictConfig)
    whole = OmegaConf.create({"hydra": OmegaConf.structured(HydraConf)})
    whole.merge_with({"hydra": both.hydra})
    HydraConfig.instance().set_config(whole)
    cfg = both.run
    cfg._set_parent(None)  # else its references would start at the text's root
    OmegaConf.set_struct(cfg, True)
    assert isinstance(cfg, DictConfig)
    return cfg


def start_log(*, is_rank_zero: bool) -> None:
    """The log of a process that Hydra did not start: as configured on rank 0, nowhere on the others."""
    if is_rank_zero:
        hydra = HydraConfig.get()
        configure_log(cast(DictConfig, hydra.job_logging), hydra.verbose)
        return
    logging.captureWarnings(True)  # rank 0 gives the same ones
    logging.getLogger().handlers[:] = [logging.NullHandler()]


def in_sweep() -> bool:
    """Whether Hydra is running this process's job as one of a sweep."""
    return bool(HydraConfig.initialized()) and HydraConfig.get().mode == RunMode.MULTIRUN


def run_folder() -> str:
    """The folder of the run that HydraConfig describes."""
    return str(HydraConfig.get().runtime.output_dir)


def sweep_folder() -> str:
    """The folder of the sweep that HydraConfig's job is one of."""
    return os.path.abspath(str(HydraConfig.get().sweep.dir))


def job_overrides() -> list[str]:
    """What was typed for the job that HydraConfig describes; see `spt.config.sweep.own_words`."""
    return own_words(str(word) for word in HydraConfig.get().overrides.task)


def run_choices() -> dict[str, str]:
    """The option chosen in every group of the run that HydraConfig describes."""
    return {str(group): str(option) for group, option in HydraConfig.get().runtime.choices.items() if option}
