"""What ranks are asked to do by the tests of spt.distributed, and what they report."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from spt.distributed import gather
from spt.distributed.batch_norm import replace_batch_norm
from spt.distributed.gather import (
    gather_rows,
    is_on_any_rank,
    mean_over_ranks,
    rank,
    smallest_over_hosts,
    smallest_over_ranks,
)
from spt.distributed.replicas import average_running_statistics, copy_from_first
from spt.distributed.shards import norms
from spt.losses.nt_xent import nt_xent
from spt.schedules import Linear
from spt.teacher_student import TeacherStudentWrapper
from spt.testing import FIRST_STEP
from tests.waves import wave

# B images per device, P projection, C channels

B, P, C = 3, 5, 4
CPU = torch.device("cpu")


def layers() -> dict[str, tuple[nn.Module, Tensor]]:
    """Networks with BatchNorm and the whole batch they see: vectors, maps, without affine, with frozen shift."""
    generator = torch.Generator().manual_seed(7)
    frozen = nn.BatchNorm1d(C)
    assert frozen.bias is not None
    frozen.bias.requires_grad_(False)
    vectors, maps = torch.randn(2 * B, C, generator=generator), torch.randn(2 * B, C, 2, 6, generator=generator)
    return {
        "vectors": (nn.Sequential(nn.BatchNorm1d(C), nn.Tanh()), 3.0 * vectors + 100.0),
        "maps": (nn.Sequential(nn.BatchNorm2d(C), nn.Tanh()), maps),
        "without affine": (nn.Sequential(nn.BatchNorm1d(C, affine=False)), vectors),
        "frozen shift": (nn.Sequential(frozen), vectors),
        "plain mean of batches": (nn.Sequential(nn.BatchNorm1d(C, momentum=None)), vectors),
        "without running statistics": (nn.Sequential(nn.BatchNorm1d(C, track_running_stats=False)), vectors),
    }


def batch_norm(across_ranks: bool) -> dict[str, dict[str, Tensor]]:
    """Outputs, gradients and state after two steps on this rank's share of every layer's batch."""
    found = {}
    for name, (network, whole) in layers().items():
        if across_ranks:
            replace_batch_norm(network, across_ranks=True)
        images = whole.chunk(dist.get_world_size())[rank()].clone().requires_grad_()
        for _ in range(2):
            output = network(images)
        weights = wave(tuple(whole.shape), 0.3).chunk(dist.get_world_size())[rank()]
        # the mean over ranks of this is the loss of one process
        (output * weights).sum().mul(dist.get_world_size()).backward()
        assert images.grad is not None
        gradients = {f"gradient of {key}": p.grad for key, p in network.named_parameters() if p.grad is not None}
        for gradient in gradients.values():
            dist.all_reduce(gradient)  # as a strategy averages
            gradient /= dist.get_world_size()
        report = {"output": output.detach(), "gradient": images.grad / dist.get_world_size(), **gradients}
        found[name] = {**report, **network.state_dict()}
    return found


def contrastive() -> dict[str, Tensor]:
    """NT-Xent on this rank's share: the loss of all ranks, and its gradient with respect to this rank's rows."""
    first, second = (wave((2 * B, P), phase).chunk(dist.get_world_size())[rank()].clone() for phase in (0.2, 0.9))
    first.requires_grad_()
    loss = nt_xent(first, second, temperature=0.3)
    loss.backward()
    assert first.grad is not None
    total = loss.detach().clone()
    dist.all_reduce(total)
    return {"loss": total / dist.get_world_size(), "gradient": first.grad / dist.get_world_size()}


def finite_differences() -> dict[str, float]:
    """The slope of the mean loss of all ranks along one direction of rank 0's rows, by autograd and by differences."""
    direction = wave((B, P), 2.0).double() if rank() == 0 else torch.zeros(B, P, dtype=torch.float64)
    start = wave((B, P), 0.1 + rank()).double()

    def mean_loss(rows: Tensor) -> Tensor:
        everyone = gather_rows(rows)  # [WB, P]
        return F.cross_entropy(rows @ everyone.T, torch.arange(B) + rank() * B)

    def value(step: float) -> float:
        loss = mean_loss(start + step * direction)
        dist.all_reduce(loss)
        return float(loss) / dist.get_world_size()

    rows = start.clone().requires_grad_()
    mean_loss(rows).backward()
    assert rows.grad is not None
    slope = (rows.grad * direction).sum() / dist.get_world_size()
    dist.all_reduce(slope)
    return {"autograd": float(slope), "differences": (value(1e-5) - value(-1e-5)) / 2e-5}


def whole_norms() -> dict[str, list[float]]:
    """Norms of tensors cut along odd numbers of rows, copied, and whole."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("data_parallel",))
    tensors = [wave((5, 3), 0.4), wave((1, 7), 0.1), wave((4,), 1.0), wave((2, 2), 3.0)]
    placed = [
        distribute_tensor(tensors[0], mesh, [Shard(0)]), distribute_tensor(tensors[1], mesh, [Shard(0)]),
        distribute_tensor(tensors[2], mesh, [Replicate()]), tensors[3],
    ]  # fmt: skip
    coarse = [tensor.bfloat16() for tensor in tensors]
    return {
        "whole": norms(tensors).tolist(),
        "placed": norms(placed).tolist(),
        "coarse": norms(coarse).tolist(),
        "coarse, exact": [float(tensor.double().norm()) for tensor in coarse],
    }


def teacher_of_odd_rows() -> dict[str, Tensor]:
    """A teacher's weights after one update on shards of 5 rows over 2 ranks, and on whole tensors."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("data_parallel",))
    found = {}
    for name, place in {"sharded": lambda t: distribute_tensor(t, mesh, [Shard(0)]), "whole": lambda t: t}.items():
        found[name] = _updated_teacher(place)
    return found


def _updated_teacher(place: Callable[[Tensor], Tensor]) -> Tensor:
    pair = TeacherStudentWrapper(nn.Linear(3, 5), momentum=Linear(0.9, 0.9, "from_zero"))
    pair.student.weight = nn.Parameter(place(wave((5, 3), 0.2)))
    pair.teacher.weight = nn.Parameter(place(wave((5, 3), 1.7)), requires_grad=False)
    pair.update(FIRST_STEP)
    weight = pair.teacher.weight.detach()
    return weight.full_tensor() if isinstance(weight, DTensor) else weight


def hosts_minimum() -> list[int]:
    """In the processes' own group, which is gloo's, and as if it were NCCL's, twice."""
    found = [smallest_over_hosts(7 - rank())]
    with mock.patch.object(dist, "get_backend", return_value="nccl"), mock.patch.object(gather, "_hosts", None):
        found += [smallest_over_hosts(5 - rank()), smallest_over_hosts(3 + rank())]
        assert gather._hosts is not None, "a group of the hosts was made and kept"
        assert gather._hosts[0] is not gather._hosts[1], "another one than that of the devices"
    return found


def agreements() -> dict[str, object]:
    """Small collectives."""
    infinite_on_one = torch.tensor(float("inf") if rank() == 1 else 0.0)
    metrics = mean_over_ranks({"a": torch.tensor(1.0 + rank()), "b": 0.5, "c": infinite_on_one})
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    copy_from_first(network, CPU)
    weight = network[0].weight.detach().clone()
    network[1].running_mean.fill_(1.0 + rank())
    average_running_statistics(network)
    return {
        "metrics": {name: float(value) for name, value in metrics.items()},
        "smallest": smallest_over_ranks(7 - rank(), CPU),
        "smallest_over_hosts": hosts_minimum(),
        "any": (is_on_any_rank(rank() == 1, CPU), is_on_any_rank(False, CPU)),
        "weight": weight,
        "running_mean": network[1].running_mean.tolist(),
    }


def everything() -> dict[str, object]:
    """All reports of one rank; those that need two ranks only where there are two."""
    reports: dict[str, object] = {"batch_norm": batch_norm(dist.get_world_size() > 1), "contrastive": contrastive()}
    if dist.get_world_size() > 1:
        reports |= {
            "slopes": finite_differences(), "norms": whole_norms(), "teacher": teacher_of_odd_rows(),
            "agreements": agreements(),
        }  # fmt: skip
    return reports
