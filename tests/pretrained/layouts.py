"""Files as DINO, DINOv2, I-JEPA and timm publish them, built from networks whose embeddings are known.

The layouts are those of main_dino.py (save_dict) and utils.py (load_pretrained_weights) for DINO, of
dinov2/models/vision_transformer.py and dinov2/eval/setup.py for DINOv2, and of src/train.py (save_checkpoint) for
I-JEPA.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import torch
from torch import Tensor, nn

Named = dict[str, Tensor]


def randomised(network: nn.Module, seed: int = 0) -> nn.Module:
    """The network with weights that all differ, in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in network.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(0.1 * torch.rand(tensor.shape, generator=generator))
    return network.eval()


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> Named:
    return {f"{prefix}{name}": tensor for name, tensor in tensors.items()}


def other(tensors: Mapping[str, Tensor]) -> Named:
    """As a network that is not the evaluated one: the same names, other weights."""
    return {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}


def head(prefix: str) -> Named:
    """DINO's projection head, in its names of torch before 2."""
    names = ("mlp.0.weight", "mlp.0.bias", "last_layer.weight_g", "last_layer.weight_v")
    return {f"{prefix}{name}": torch.ones(2, 2) for name in names}


def dino_checkpoint(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """What main_dino.py saves; the student is wrapped for several GPUs, the teacher of a ViT is not."""
    return {
        "student": {**prefixed("module.backbone.", other(tensors)), **head("module.head.")},
        "teacher": {**prefixed("backbone.", tensors), **head("head.")},
        "optimizer": {
            "state": {0: {"step": 3, "exp_avg": torch.ones(2)}},
            "param_groups": [{"lr": 0.1, "params": [0]}],
        },
        "epoch": 7,
        "args": argparse.Namespace(arch="vit_small", patch_size=4, lr=0.0005),
        "dino_loss": {"center": torch.zeros(1, 5)},
    }


def dinov2_names(tensors: Mapping[str, Tensor], *, blocks_per_chunk: int | None) -> Named:
    """timm's names as DINOv2 has them, with registers, SwiGLU layers and blocks in chunks."""
    found: Named = {"mask_token": torch.ones(1, tensors["cls_token"].shape[-1])}
    for name, tensor in tensors.items():
        renamed = name.replace("reg_token", "register_tokens")
        if renamed.startswith("blocks.") and blocks_per_chunk is not None:
            _, number, rest = renamed.split(".", 2)
            renamed = f"blocks.{int(number) // blocks_per_chunk}.{number}.{rest}"
        found[renamed] = tensor
    if "register_tokens" in found:  # the class token has a position of its own there, registers have none
        position = torch.full_like(found["cls_token"], 0.25)
        found["cls_token"] = found["cls_token"] - position
        found["pos_embed"] = torch.cat([position, found["pos_embed"]], dim=1)
    return found


def dinov2_checkpoint(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """teacher_checkpoint.pth of a training."""
    backbone = dinov2_names(tensors, blocks_per_chunk=2)
    return {"teacher": {**prefixed("backbone.", backbone), **head("dino_head."), **head("ibot_head.")}}


def ijepa_checkpoint(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """What src/train.py saves."""
    return {
        "encoder": prefixed("module.", other(tensors)),
        "predictor": {"module.mask_token": torch.ones(1, 1, 3)},
        "target_encoder": prefixed("module.", tensors),
        "opt": {"state": {}, "param_groups": []},
        "scaler": None,
        "epoch": 300,
        "loss": 0.1,
        "batch_size": 128,
        "world_size": 16,
        "lr": 0.001,
    }
