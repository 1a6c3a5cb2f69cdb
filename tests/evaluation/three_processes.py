"""Ten images over three processes; each compares what it gathers and learns with what one process would."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from spt.evaluation.rows import Rows, gather_unique
from spt.probes.linear_classifier import LinearClassifier

# M images in all, D embedding, C classes, W processes

M, D, C, W = 10, 5, 4, 3
INDICES = ([0, 3, 6, 9], [1, 4, 7], [2, 5, 8, 0, 1])  # of unequal number, with two padded duplicates


def images() -> Rows:
    generator = torch.Generator().manual_seed(0)
    return Rows(torch.randn(M, D, generator=generator), torch.arange(M) % C, torch.arange(M))


def compare(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=W)
    whole = images()
    mine = Rows(*(column[INDICES[rank]] for column in whole))
    for gathered, expected in zip(gather_unique(mine), whole, strict=True):
        assert torch.equal(gathered, expected), f"process {rank} gathered {gathered}"

    shared = LinearClassifier(C, lr=2.0, momentum=0.9, weight_decay=0.01, statistics_momentum=0.9)
    alone = LinearClassifier(C, lr=2.0, momentum=0.9, weight_decay=0.01, statistics_momentum=0.9)
    everything = [index for indices in INDICES for index in indices]
    for _ in range(3):
        shared.add(mine.embeddings, mine.labels)
        shared.step()
        alone.add(whole.embeddings[everything], whole.labels[everything])
        alone.step_alone()
    weights = shared.state_dict()["weights"]
    torch.testing.assert_close(weights, alone.state_dict()["weights"])
    everyone = [torch.empty_like(weights) for _ in range(W)]
    dist.all_gather(everyone, weights)
    assert all(torch.equal(weights, other) for other in everyone), "weights differ between processes"
    print(f"process {rank} agrees", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(compare, args=(str(Path(folder) / "store"),), nprocs=W, start_method="fork")
