"""Configs from elsewhere: what may be built, and what would run code that nobody chose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import spt
from spt.config.errors import ConfigError
from spt.config.tree import Plain, project_tree
from spt.config.trust import check_trust, defined_as, parse_stored

TREE = project_tree()
WORDS = [
    f"{group}={option}"
    for group in ("method", "backbone", "views", "optimizer", "strategy", "probes", "logger", "data")
    for option in TREE.options(group)
    if option not in ("ddp", "fsdp2", "deepspeed_stage_3", "image_folder")  # which this machine may refuse
]


@pytest.mark.parametrize("word", WORDS)
def test_everything_in_conf_is_trusted(word: str) -> None:
    tokens = ["method=ijepa", "~recipe"] if word in ("views=ijepa", "views=plain") else []
    cfg = spt.compose(word, *tokens)
    config: Plain = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    check_trust(config, packages=())


@pytest.mark.parametrize("option", TREE.options("strategy"))
def test_every_strategy_is_trusted(option: str) -> None:
    check_trust(OmegaConf.to_container(OmegaConf.load(TREE.folders[0] / "strategy" / f"{option}.yaml")), packages=())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "target",
    [
        "spt.backbones.vit.VisionTransformer", "methods.dino.DINO", "torch.nn.Linear", "torch.optim.AdamW",
        "torch.utils.data.DataLoader", "torchvision.transforms.v2.Compose", "timm.create_model",
        "timm.models.vision_transformer.VisionTransformer", "lightning.pytorch.callbacks.EarlyStopping",
    ],
)  # fmt: skip
def test_building_blocks_are_trusted(target: str) -> None:
    check_trust({"part": {"_target_": target}}, packages=())


@pytest.mark.parametrize(
    "target",
    [
        "os.system", "builtins.eval", "subprocess.run", "hydra.utils.get_method", "sklearn.svm.SVC", "torchx.Thing",
        "torch.load", "torch.hub.load", "torch.hub.load_state_dict_from_url", "torch.jit.load",
        "torch.utils.cpp_extension.load_inline", "torch.package.PackageImporter", "torch.utils.benchmark.Timer",
        "torch.utils.collect_env.run", "torch.multiprocessing.spawn", "torch.import_ir_module", "torch.fx.GraphModule",
        "torch.distributed.elastic.multiprocessing.start_processes", "torch.export.load",
        "lightning.LightningModule.load_from_checkpoint", "spt.module.SSLModule.load_from_checkpoint",
        "lightning.pytorch.cli.instantiate_class", "timm.models.load_checkpoint", "spt.config.build.build_method",
        "spt.run.train", "torchvision.datasets.utils.download_and_extract_archive", "spt.launch.ranks.Ranks",
    ],
)  # fmt: skip
def test_what_loads_or_runs_other_code_is_refused(target: str) -> None:
    with pytest.raises(ConfigError, match=rf"method\.head\._target_={target}: "):
        check_trust({"method": {"_target_": "methods.dino.DINO", "head": {"_target_": target}}}, packages=())


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.system", "torch.nn.modules.module.torch.load", "spt.run.logging.Formatter",
        "spt.checkpoint.saver.copy.deepcopy", "torch.nn.Linear.__init__.__globals__", "torch._C._nn.gelu", "torch.nn",
        "spt", "", "torch.nn.NoSuchThing", "lightning.pytorch.trainer.trainer.os.popen",
    ],
)  # fmt: skip
def test_a_way_through_a_trusted_package_to_another_one_is_refused(target: str) -> None:
    """Hydra follows dots through everything that a module has imported."""
    with pytest.raises(ConfigError, match=r"_target_="):
        check_trust([{"_target_": target}], packages=())


def test_all_that_is_not_trusted_is_named_at_once() -> None:
    config: Plain = {
        "a": {"_target_": "evil.X"}, "b": [{"c": {"_target_": 3}}],
        "backbone": {"options": {"checkpoint_path": "x.pth"}, "name": "HF-hub:someone/model"}, "d": "${oc.create:x}",
    }  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        check_trust(config, packages=())
    for words in (
        "a._target_=evil.X: is not of spt, methods, torch", "b.0.c._target_=3: is no name",
        "backbone.options.checkpoint_path=x.pth: names a file", "backbone.name=HF-hub:someone/model: names an address",
        "d=${oc.create:x}: refers to", "trust=[<package>",
    ):  # fmt: skip
        assert words in str(caught.value)


def test_a_package_that_the_user_names_is_trusted_and_no_other() -> None:
    config: Plain = {"a": {"_target_": "sklearn.svm.SVC"}, "b": {"_target_": "torch.hub.load"}}
    with pytest.raises(ConfigError) as caught:
        check_trust(config, packages=["sklearn"])
    assert "a._target_" not in str(caught.value)
    check_trust(config, packages=["sklearn", "torch.hub"])
    with pytest.raises(ConfigError, match=r"traced|which is not of"):
        check_trust({"_target_": "sklearn.utils.validation.warnings.sys.exit"}, packages=["sklearn"])


def test_names_are_followed_to_their_definition_without_importing_anything() -> None:
    assert defined_as("torch.optim.AdamW") == "torch.optim.adamw.AdamW"
    code = (
        "import sys; from spt.config.trust import check_trust;"
        "check_trust({'_target_': 'torch.nn.Linear'}, packages=());"
        "sys.exit('torch' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_a_stored_config_is_read_as_plain_data() -> None:
    assert parse_stored("backbone:\n  depth: 1\n  lr: 1.0e-04\n", packages=()) == {"backbone": {"depth": 1, "lr": 1e-4}}
    for text in ("a: [", "3", "!!python/object/apply:os.system ['true']"):
        with pytest.raises(ConfigError, match="stored config"):
            parse_stored(text, packages=())
