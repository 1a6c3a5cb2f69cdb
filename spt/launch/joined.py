"""Under torchrun and srun: rank 0 composes, the others take its config. One run, one folder, whatever the launcher."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from lightning.fabric.plugins.environments import SLURMEnvironment
from torch.distributed import DistStoreError, TCPStore

import spt
from spt.config.errors import ConfigError
from spt.config.handover import read_config, start_log, write_config
from spt.config.machine import Group
from spt.launch.process import end_with_parent

if TYPE_CHECKING:
    from omegaconf import DictConfig

PATIENCE = timedelta(minutes=5)
"""How long a rank waits for rank 0: torch may have to be read over a slow network first."""

_PORT_DISTANCE = 10_000  # of our store from the port of the process group, which others open later


def publish(cfg: DictConfig, group: Group) -> TCPStore | None:
    """Gives the config of rank 0 to the ranks that `follow`. The store must live until they have read it.

    Does nothing on other ranks: those that come here have a config already.
    """
    if group.rank > 0 or group.world_size == 1:
        return None
    store = _store(group)
    store.set(_key(), write_config(cfg))
    return store


def follow(group: Group) -> NoReturn:
    """Runs the config of rank 0 in this process, and ends it.

    Raises:
        SystemExit: status 0 after the run; 2 for a config that cannot work or does not come.
    """
    end_with_parent(os.getppid())
    try:
        cfg = read_config(_received(group))
        start_log(is_rank_zero=False)
        spt.train_here(cfg)
    except ConfigError as error:
        sys.stderr.write(f"Rank {group.rank}: {error}\n")
        raise SystemExit(2) from None
    raise SystemExit(0)


def _received(group: Group) -> str:
    try:
        return _store(group).get(_key()).decode()
    except DistStoreError as error:
        raise ConfigError(
            f"{group.launcher} started {group.world_size} processes, and rank 0 gave the others no config within "
            f"{PATIENCE}: it failed, or cannot be reached ({error}).\n    try: the output of rank 0"
        ) from error


def _store(group: Group) -> TCPStore:
    """torchrun's own store, or one that rank 0 opens beside the port of the process group."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=PATIENCE)
    environment = SLURMEnvironment()  # reads MASTER_ADDR and MASTER_PORT, and derives from SLURM what is missing
    port = environment.main_port
    port = port + _PORT_DISTANCE if port + _PORT_DISTANCE < 2**16 else port - _PORT_DISTANCE
    return TCPStore(environment.main_address, port, is_master=group.rank == 0, timeout=PATIENCE, wait_for_workers=False)


def _key() -> str:
    return f"spt/config/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
