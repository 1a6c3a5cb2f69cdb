"""What an export holds is what plain timm needs: the card's own lines are run, and embeddings compared."""

from __future__ import annotations

import re
import runpy
import sys
import warnings
from pathlib import Path

import pytest
import safetensors
import torch
from torch import Tensor, nn

from spt.config.errors import CheckpointError, ConfigError
from spt.config.tree import project_tree
from spt.export.evaluated import Evaluated
from spt.export.export import FORMATS, check_embeddings, export_backbone
from tests.export.runs import STEP, leave_run, noise
from tests.runs import METHODS, VIT

BACKBONES = project_tree().options("backbone")
SHALLOW = {
    "timm": ("backbone.name=vit_small_patch14_reg4_dinov2", "+backbone.options.depth=1", "data.image_size=28"),
    "resnet18": (), "resnet50": (),
}  # fmt: skip
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "export_backbone.py"


def opened(folder: Path, checkpoint: str = "last", packages: tuple[str, ...] = ()) -> Evaluated:
    return Evaluated(folder, checkpoint=checkpoint, packages=packages)


def card_code(card: Path) -> str:
    """The lines of Python that a card shows."""
    found = re.search(r"```python\n(.*?)```", card.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


@torch.no_grad()
def embeddings_of(card: Path, images: Tensor, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """What the card's lines give, run as they are printed, beside the file."""
    folder = card.parent if card.name != "README.md" else card.parent.parent
    monkeypatch.chdir(folder)
    scope: dict[str, object] = {"images": images}
    exec(card_code(card), scope)  # what a reader would type
    assert isinstance(scope["model"], nn.Module)
    assert isinstance(scope["embeddings"], Tensor)
    return scope["embeddings"]


@pytest.mark.parametrize("layout", ["file", "folder"])
@pytest.mark.parametrize("method", METHODS)
def test_the_cards_lines_give_the_embeddings_that_the_method_evaluates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, layout: str
) -> None:
    """The teacher of DINO and I-JEPA, the student of BYOL and SimCLR; all weights differ between the two."""
    run = leave_run(tmp_path / "run", method=method, layout=layout)
    file, card = export_backbone(opened(run.folder), format="safetensors", output=None, verify=True)
    assert file == run.folder / "export" / f"{method}-vit_micro-fake-step{STEP}.safetensors"
    images = noise(16)
    expected = run.method.embed(images)
    assert torch.allclose(embeddings_of(card, images, monkeypatch), expected, atol=1e-5)
    if run.method.has_teacher:
        for network in (run.method.networks.student, run.method.networks.teacher):
            assert torch.equal(run.method.embed(images), expected)
            if network is not run.method.evaluated:
                other = network.network if method == "ijepa" else network.backbone.network
                assert not torch.allclose(other(images), expected, atol=1e-3)


@pytest.mark.parametrize("option", [*BACKBONES, "cifar"])
def test_the_cards_lines_work_for_every_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    words: tuple[str, ...] = SHALLOW.get(option, ("backbone.depth=1", "data.image_size=32"))
    if option == "cifar":
        option, words = "resnet18", ("backbone.stem=cifar",)
    run = leave_run(tmp_path / "run", method="simclr", backbone=(f"backbone={option}", *words))
    _, card = export_backbone(opened(run.folder), format="safetensors", output=None, verify=False)
    images = noise(run.cfg.views.global_size)
    # timm computes tokens that are left out here, and rounds sums otherwise; LARS leaves networks that magnify that
    assert torch.allclose(embeddings_of(card, images, monkeypatch), run.method.embed(images), atol=5e-4)
    assert ("first convolution of 3x3 and stride 1" in card.read_text()) == ("backbone.stem=cifar" in words)


@pytest.mark.parametrize("format", [name for name in FORMATS if name != "safetensors"])
@pytest.mark.parametrize("backbone", [VIT, ("backbone=resnet18",)], ids=["vit", "resnet"])
def test_other_formats_give_the_same_embeddings_for_any_number_of_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, backbone: tuple[str, ...]
) -> None:
    run = leave_run(tmp_path / "run", backbone=backbone)
    _, card = export_backbone(opened(run.folder), format=format, output=tmp_path / "out" / "net", verify=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`torch\.jit")  # torch advises against its own format
        found = {images: embeddings_of(card, noise(16, images), monkeypatch) for images in (1, 7)}
    for images, embeddings in found.items():
        assert torch.allclose(embeddings, run.method.embed(noise(16, images)), atol=1e-4)


def test_positions_are_resampled_to_the_images_that_were_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = leave_run(tmp_path / "run", "backbone.image_size=40")
    evaluated = opened(run.folder)
    assert evaluated.has_resampled_positions
    assert evaluated.tensors["pos_embed"].shape == (1, 1 + 16, 16)
    _, card = export_backbone(evaluated, format="safetensors", output=None, verify=True)
    assert "grid of 10 x 10 patches and are resampled here to 4 x 4" in card.read_text()
    images = noise(16)
    assert torch.allclose(embeddings_of(card, images, monkeypatch), run.method.embed(images), atol=1e-5)


def test_the_card_and_the_header_say_what_the_network_is(tmp_path: Path) -> None:
    run = leave_run(tmp_path / "run", "data.mean=[0.1,0.2,0.3]", method="ijepa")
    file, card = export_backbone(
        opened(run.folder), format="safetensors", output=tmp_path / "a.safetensors", verify=False
    )
    text = card.read_text()
    for words in (
        "# ijepa, vit_micro, fake", "the teacher of ijepa", "the mean of the patch tokens", "6 of 9",
        "| val/knn_top1 | 0.7500 |", "mean 0.1, 0.2, 0.3", "16 x 16 pixels", "timm 1.0.20", "img_size=16",
    ):  # fmt: skip
        assert words in text, words
    with safetensors.safe_open(file, framework="pt") as content:
        header = content.metadata()
        assert not [name for name in content.keys() if "network" in name or "teacher" in name]  # noqa: SIM118
    assert (header["method"], header["network"], header["step"], header["image_size"]) == (
        "ijepa",
        "teacher",
        "6",
        "16",
    )


def test_what_was_written_is_compared_with_what_was_trained(tmp_path: Path) -> None:
    first = leave_run(tmp_path / "first", method="simclr")
    other = leave_run(tmp_path / "other", "seed=1", "backbone.init_std=0.5", method="simclr")
    file, _ = export_backbone(
        opened(other.folder), format="safetensors", output=tmp_path / "a.safetensors", verify=True
    )
    with pytest.raises(CheckpointError, match="differ by up to"):
        check_embeddings(opened(first.folder), file)


def test_an_export_that_cannot_be_made_is_refused_with_what_can(tmp_path: Path) -> None:
    run = leave_run(tmp_path / "run", "backbone.stem=cifar", backbone=("backbone=resnet18",))
    with pytest.raises(ConfigError, match=r"no resnet18 with a stem for small images; use format=safetensors"):
        export_backbone(opened(run.folder), format="timm", output=None, verify=False)
    with pytest.raises(ConfigError, match=r"format=onnx does not exist; use format=safetensors\|timm"):
        export_backbone(opened(run.folder), format="onnx", output=None, verify=False)
    with pytest.raises(CheckpointError, match=r"called best; use checkpoint=step00000006\.ckpt"):
        opened(run.folder, checkpoint="best")
    with pytest.raises(CheckpointError, match=r"nowhere does not exist; use run="):
        opened(tmp_path / "nowhere")
    assert opened(run.folder, checkpoint="step00000006").path == run.checkpoint == opened(run.checkpoint).path


def test_code_that_a_checkpoint_names_is_not_run(tmp_path: Path) -> None:
    run = leave_run(tmp_path / "run")
    content = torch.load(run.checkpoint, weights_only=True)
    ran = tmp_path / "ran"
    content["run"]["config"] += f"evil:\n  _target_: pathlib.Path.touch\n  _args_: [{ran}]\n"
    content["run"]["config"] = content["run"]["config"].replace("spt.backbones.vit.VisionTransformer", "os.system")
    torch.save(content, run.checkpoint)
    with pytest.raises(ConfigError, match=r"backbone\._target_=os\.system: is not of spt(.|\n)*evil\._target_"):
        opened(run.folder)
    assert not ran.exists()


def test_the_script_exports_and_names_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = leave_run(tmp_path / "run", layout="folder")
    out = tmp_path / "net.safetensors"
    monkeypatch.setattr(sys, "argv", ["export_backbone.py", f"run={run.folder}", f"output={out}"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert out.is_file()
    assert str(out) in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["export_backbone.py", f"run={run.folder}", "fromat=timm", "verify"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == 2
    assert "fromat does not exist.\n    did you mean: format" in capsys.readouterr().err


def test_a_package_that_the_user_trusts_may_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = leave_run(tmp_path / "run")
    content = torch.load(run.checkpoint, weights_only=True)
    content["run"]["config"] += "extra:\n  _target_: sklearn.svm.SVC\n"
    torch.save(content, run.checkpoint)
    for words, code in (([], 2), (["trust=[sklearn]"], None)):
        monkeypatch.setattr(sys, "argv", ["export_backbone.py", f"run={run.folder}", *words])
        if code is None:
            runpy.run_path(str(SCRIPT), run_name="__main__")
            continue
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        assert ended.value.code == code
        assert "extra._target_=sklearn.svm.SVC: is not of spt" in capsys.readouterr().err
    assert (run.folder / "export").is_dir()
