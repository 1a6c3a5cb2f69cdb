"""The teacher's update on sharded weights against loops over tensors, as other codes write them.

    python scripts/bench_teacher.py
    python scripts/bench_teacher.py --backbone vit_small --ranks 4

fully_shard on CPUs with gloo, loops on the sharded tensors: as the authors of DINO and I-JEPA write it; as
stable-pretraining does, whose momentum is a tensor; and without the product that both store for every tensor. All
take turns; times are the first process's. dispatch: the same on a network whose tensors have hardly any elements, so
that what is left is the cost of a call, all that a GPU's host pays.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, OffloadPolicy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

import spt
from scripts.timing import Cell, middle, ratio, report, take_turns
from spt.config.build import build_method
from spt.method import Method
from spt.strategies.sharding import Options, shard
from spt.types import Progress

_MOMENTUM = torch.tensor(0.996)
LOOPS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "t.mul_(m).add_((1 - m) * s)": lambda teacher, student: teacher.mul_(0.996).add_((1 - 0.996) * student),
    "the same, m a tensor": lambda teacher, student: teacher.mul_(_MOMENTUM).add_((1 - _MOMENTUM) * student),
    "t.mul_(m).add_(s, alpha=1 - m)": lambda teacher, student: teacher.mul_(0.996).add_(student, alpha=1 - 0.996),
}
SMALL = ("backbone.embed_dim=12", "backbone.num_heads=3", "method.head.hidden_dim=4", "method.num_prototypes=8")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", default="vit_base", help="an option of conf/backbone")
    parser.add_argument("--ranks", type=int, default=2, help="processes")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_measure, args=(arguments, folder), nprocs=arguments.ranks)


def _measure(rank: int, arguments: argparse.Namespace, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=arguments.ranks,
        timeout=timedelta(minutes=5),
    )  # fmt: skip
    rows: list[dict[str, Cell]] = []
    for kind, words in (("whole", ["method.num_prototypes=4096"]), ("dispatch", list(SMALL))):
        method = _sharded([f"backbone={arguments.backbone}", *words], folder)
        contestants = {"spt": lambda method=method: method.networks.update(Progress(1, 100, 10))}
        contestants |= {name: _per_tensor(method, move) for name, move in LOOPS.items()}
        laps = take_turns(contestants, rounds=arguments.rounds, steps=3)
        for name, found in laps.items():
            times, slower = middle(found), ratio(found, laps["spt"])
            rows.append(
                {
                    "network": kind,
                    "by": name,
                    "tensors": len(list(method.networks.teacher.parameters())),
                    "ms": 1e3 * times.clock,
                    "times ours": slower.clock,
                    "by processor": slower.processor,
                }
            )
    if rank == 0:
        report("teacher", f"teacher update, {arguments.backbone}, fsdp2, {arguments.ranks} processes", rows)
    dist.destroy_process_group()


def _sharded(words: list[str], folder: str) -> Method:
    method = build_method(spt.compose("method=dino", "data=fake", *words, f"hydra.run.dir={folder}"))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("data_parallel",))
    shard(method, Options(mesh, MixedPrecisionPolicy(), True, OffloadPolicy()))
    return method


def _per_tensor(method: Method, move: Callable[[Tensor, Tensor], object]) -> Callable[[], None]:
    networks = method.networks

    @torch.no_grad()
    def update() -> None:
        for teacher, student in zip(networks.teacher.parameters(), networks.student.parameters(), strict=True):
            move(teacher, student)

    return update


if __name__ == "__main__":
    main()
