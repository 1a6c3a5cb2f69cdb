"""Which parameters are trained, which decay: lists of names, written out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs import METHODS, VIT, build

BLOCK_DECAYED = ["attn.qkv.weight", "attn.proj.weight", "mlp.fc1.weight", "mlp.fc2.weight"]
BLOCK_EXEMPT = [
    "norm1.weight", "norm1.bias", "attn.qkv.bias", "attn.proj.bias", "norm2.weight", "norm2.bias", "mlp.fc1.bias",
    "mlp.fc2.bias",
]  # fmt: skip


def below(prefix: str, names: list[str]) -> list[str]:
    return [f"{prefix}.{name}" for name in names]


VIT_DECAYED = ["patch_embed.proj.weight", *below("blocks.0", BLOCK_DECAYED)]
VIT_EXEMPT = ["patch_embed.proj.bias", *below("blocks.0", BLOCK_EXEMPT), "norm.weight", "norm.bias"]
LEARNED_TOKENS = ["cls_token", "pos_embed"]
RESNET_BLOCKS = [f"layer{stage}.{block}" for stage in (1, 2, 3, 4) for block in (0, 1)]
SHORTCUTS = [f"layer{stage}.0.downsample" for stage in (2, 3, 4)]
RESNET_DECAYED = [
    "conv1.weight",
    *[f"{block}.conv{i}.weight" for block in RESNET_BLOCKS for i in (1, 2)],
    *[f"{shortcut}.0.weight" for shortcut in SHORTCUTS],
]
RESNET_NORMS = [
    "bn1",
    *[f"{block}.bn{i}" for block in RESNET_BLOCKS for i in (1, 2)],
    *[f"{shortcut}.1" for shortcut in SHORTCUTS],
]
RESNET_EXEMPT = [f"{norm}.{kind}" for norm in RESNET_NORMS for kind in ("weight", "bias")]
STUDENT = "networks.student.backbone.network"
VIT_OF_BRANCH = (below(STUDENT, LEARNED_TOKENS + VIT_DECAYED), below(STUDENT, VIT_EXEMPT))
RESNET_OF_BRANCH = (below(STUDENT, RESNET_DECAYED), below(STUDENT, RESNET_EXEMPT))

# method -> (decayed, exempt), the backbone of a branch left out
HEADS = {
    "byol": (
        [*below("networks.student.head", ["0.weight", "3.weight"]), *below("predictor", ["0.weight", "3.weight"])],
        [
            "networks.student.head.0.bias", "networks.student.head.1.weight", "networks.student.head.1.bias",
            "predictor.0.bias", "predictor.1.weight", "predictor.1.bias",
        ],
    ),
    # the last layer's directions decay; its lengths (original0) are frozen
    "dino": (
        below(
            "networks.student.head",
            ["mlp.0.weight", "mlp.2.weight", "mlp.4.weight", "last_layer.parametrizations.weight.original1"],
        ),
        below("networks.student.head", ["mlp.0.bias", "mlp.2.bias", "mlp.4.bias"]),
    ),
    # the last BatchNorm has no shift to train
    "simclr": (
        below("networks.student.head", ["0.weight", "3.weight", "6.weight"]),
        below("networks.student.head", ["1.weight", "1.bias", "4.weight", "4.bias", "7.weight"]),
    ),
}  # fmt: skip
# fixed positions, no class token
IJEPA = (
    [
        *below("networks.student.network", VIT_DECAYED), "predictor.mask_token", "predictor.inward.weight",
        *below("predictor.blocks.0", BLOCK_DECAYED), "predictor.outward.weight",
    ],
    [
        *below("networks.student.network", VIT_EXEMPT), "predictor.inward.bias",
        *below("predictor.blocks.0", BLOCK_EXEMPT), "predictor.norm.weight", "predictor.norm.bias",
        "predictor.outward.bias",
    ],
)  # fmt: skip


def grouped_names(method: str, folder: Path, backbone: tuple[str, ...]) -> dict[str, list[str]]:
    """Names of the parameters in each group of the optimizer."""
    run = build(method, folder, backbone=backbone)
    names = {parameter: name for name, parameter in run.module.method.named_parameters()}
    groups = run.module.recipe.build(run.module.method).param_groups
    return {group["name"]: [names[parameter] for parameter in group["params"]] for group in groups}


@pytest.mark.parametrize("method", HEADS)
@pytest.mark.parametrize("backbone", ["vit_micro", "resnet18"])
def test_weights_decay_and_biases_and_norms_do_not(tmp_path: Path, method: str, backbone: str) -> None:
    """Trap 57: class token and positions decay in these recipes, as in the authors' codes."""
    is_vit = backbone == "vit_micro"
    names = grouped_names(method, tmp_path, VIT if is_vit else (f"backbone={backbone}",))
    for group, of_backbone, of_head in zip(
        ("decayed", "exempt"), VIT_OF_BRANCH if is_vit else RESNET_OF_BRANCH, HEADS[method], strict=True
    ):
        assert sorted(names[group]) == sorted(of_backbone + of_head)


def test_ijepa_trains_context_encoder_and_predictor_without_their_positions(tmp_path: Path) -> None:
    """Traps 57 and 58."""
    names = grouped_names("ijepa", tmp_path, VIT)
    assert (sorted(names["decayed"]), sorted(names["exempt"])) == (sorted(IJEPA[0]), sorted(IJEPA[1]))


@pytest.mark.parametrize("method", METHODS)
def test_the_optimizer_holds_every_trainable_parameter_once_and_nothing_of_the_teacher(
    tmp_path: Path, method: str
) -> None:
    """Trap 20."""
    module = build(method, tmp_path).module
    ids = [id(parameter) for group in module.configure_optimizers().param_groups for parameter in group["params"]]
    assert len(ids) == len(set(ids))
    assert set(ids) == {id(parameter) for parameter in module.parameters() if parameter.requires_grad}
    if module.method.has_teacher:
        assert not set(ids) & {id(parameter) for parameter in module.method.networks.teacher.parameters()}
