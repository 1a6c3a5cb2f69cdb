"""How processes are laid out."""

from __future__ import annotations

from typing import Literal

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from spt.config.errors import ConfigError

REPLICATE, SHARD, TENSOR = "replicate", "data_parallel", "tensor_parallel"


def build_mesh(
    device_type: str, *, world_size: int, replicate_size: int, data_parallel_size: Literal["auto"] | int,
    tensor_parallel_size: int,
) -> DeviceMesh:  # fmt: skip
    """A mesh of the dimensions replicate, data_parallel, tensor_parallel; those of size 1 are left out but the second.

    Args:
        data_parallel_size: "auto" for what the other two leave of all processes.

    Raises:
        ConfigError: the product of the sizes is not the number of processes, or the combination is not supported.
    """
    others = replicate_size * tensor_parallel_size
    shards = max(world_size // others, 1) if data_parallel_size == "auto" else data_parallel_size
    if shards * others != world_size:
        raise ConfigError(
            f"strategy.replicate_size={replicate_size} x strategy.data_parallel_size={data_parallel_size} x "
            f"strategy.tensor_parallel_size={tensor_parallel_size} is not the number of processes, {world_size}; "
            "use strategy.replicate_size=1 strategy.data_parallel_size=auto strategy.tensor_parallel_size=1."
        )
    sizes = {REPLICATE: replicate_size, SHARD: shards, TENSOR: tensor_parallel_size}
    kept = {name: size for name, size in sizes.items() if size > 1 or name == SHARD}
    return check_mesh(init_device_mesh(device_type, tuple(kept.values()), mesh_dim_names=tuple(kept)))


def check_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """The mesh, if its dimensions have the names that tell what each is for.

    Raises:
        ConfigError: names the dimensions that there are and those that there may be.
    """
    names = tuple(mesh.mesh_dim_names or ())
    if SHARD not in names or not set(names) <= {REPLICATE, SHARD, TENSOR}:
        raise ConfigError(
            f"strategy.mesh gives a mesh with the dimensions {names}; weights are divided over {SHARD!r}, copied over "
            f"{REPLICATE!r}, and images are shared over {TENSOR!r}: use mesh_dim_names=[{SHARD}] or add the others."
        )
    if REPLICATE in names and TENSOR in names:
        raise ConfigError(
            "Copies of the weights (replicate) and tensor parallelism together are not supported; use "
            "strategy.replicate_size=1 or strategy.tensor_parallel_size=1."
        )
    return mesh


def sharding_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """The part of the mesh that fully_shard is given, whose processes see different images.

    Never all of a mesh with tensor parallelism: its first dimension would be taken for copies.
    """
    names = mesh.mesh_dim_names or ()
    return mesh[REPLICATE, SHARD] if REPLICATE in names else mesh[SHARD]
