"""What a user is told when something cannot work: key, value, why, what to type; and that nothing is left behind."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spt.config.command_line import check_command_line
from spt.config.errors import ConfigError
from tests.data.sets import cut_short, write_folder
from tests.runs import Losses, build, fit

# what is typed -> what the answer must hold: the key and value at fault, why, and what to type
REFUSALS: dict[str, tuple[list[str], list[str]]] = {
    "a crop that is no multiple of the patch": (
        ["views.global_size=18"],
        ["views.global_size=18", "backbone.patch_size=4", "whole patches", "try: views.global_size=16"],
    ),
    "a small crop that is no multiple of the patch": (
        ["method=dino", "views.local_size=7"],
        ["views.local_size=7", "backbone.patch_size=4", "whole patches", "try: views.local_size=8"],
    ),
    "a small crop that is no multiple of a timm model's patch": (
        ["method=dino", "backbone=timm", "data.image_size=64", "views.local_size=27"],
        ["views.local_size=27", "patch_size=16", "whole patches", "try: views.local_size=32"],
    ),
    "masks on another grid than the backbone's": (
        ["method=ijepa", "masks.min_keep=2", "backbone.image_size=32"],
        ["backbone.image_size=32", "views.global_size=16", "two grids", "try: backbone.image_size=16"],
    ),
    "a backbone without tokens": (
        ["method=ijepa", "backbone=resnet18"],
        ["method=ijepa", "backbone=resnet18", "predicts tokens", "try: backbone=vit_micro"],
    ),
    "more context than the grid has": (
        ["method=ijepa", "masks.min_keep=16"],
        ["masks.min_keep", "16 context tokens", "has 16 tokens in all", "try: masks.min_keep=4"],
    ),
    "larger targets than the grid has": (
        ["method=ijepa", "masks.min_keep=1", "masks.target_scale=[0.5,1.2]"],
        ["blocks of up to 20", "has 16 tokens in all", "masks.target_scale below 1"],
    ),
    "a batch that does not divide over micro-batches": (
        ["data.global_batch_size=100", "trainer.accumulate_grad_batches=3"],
        ["data.global_batch_size=100", "trainer.accumulate_grad_batches=3", "equal micro-batches",
         "try: data.global_batch_size=99"],
    ),
    "a batch larger than the data set": (
        ["data.global_batch_size=2048"],
        ["data.global_batch_size=2048", "1437 training images", "no step", "try: data.global_batch_size=1024"],
    ),
    "a warm-up longer than the run": (
        ["trainer.max_epochs=5", "optimizer.lr_schedule.warmup_epochs=6"],
        ["optimizer.lr_schedule.warmup_epochs=6", "longer than the run", "never reach its peak",
         "try: optimizer.lr_schedule.warmup_epochs=0"],
    ),
    "crops that are drawn only after decoding, from images decoded for their crops": (
        ["data=image_folder", "data.source.root=.", "views.made_on=worker", "data.source.reduced_decoding=2"],
        ["data.source.reduced_decoding=2", "views.made_on=worker", "before an image is decoded",
         "try: data.source.reduced_decoding=null"],
    ),
    "an image folder that is absent": (
        ["data=image_folder", "data.source.root=nowhere"],
        ["data.source.root=nowhere", "is absent", "train/CLASS/IMAGE", "try: data.source.root="],
    ),
    "a momentum above 1": (
        ["method=byol", "method.momentum.start=1.996"],
        ["method.momentum.start=1.996", "outside [0, 1]", "without bound", "try: method.momentum.start=0.996"],
    ),
    "a k-NN without neighbours": (
        ["probes.knn.k=0"],
        ["probes.knn.k=0 is below 1", "try: probes.knn.k=1"],
    ),
    "a head without layers": (
        ["method.head.num_layers=0"],
        ["method.head.num_layers=0 is below 1", "try: method.head.num_layers=1"],
    ),
    "networks without width or depth": (
        ["method=dino", "backbone.depth=0", "method.num_prototypes=0"],
        ["backbone.depth=0 is below 1", "method.num_prototypes=0 is below 1", "try: backbone.depth=1"],
    ),
    "an accelerator that nothing here was written for": (
        ["trainer.accelerator=tpu"],
        ["trainer.accelerator=tpu", "try: trainer.accelerator=auto"],
    ),
    "tokens fewer than the context of a timm model": (
        ["method=ijepa", "backbone=timm"],
        ["10 context tokens (masks.min_keep)", "views.global_size=16 in patches of 16 has 1 tokens"],
    ),
    "the config of many jobs": (
        ["-m", "--cfg", "job", "seed=1,2"],
        ["-m runs many jobs", "try: --cfg job without -m"],
    ),
    "a checkpoint that is not there": (
        ["resume=nowhere.ckpt"],
        ["resume=nowhere.ckpt does not exist", "try: resume="],
    ),
    "a negative center momentum": (
        ["method=dino", "method.center_momentum=-0.1"],
        ["method.center_momentum=-0.1", "outside [0, 1]", "try: method.center_momentum=0"],
    ),
}  # fmt: skip


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What train.py answers, with status 2."""
    with pytest.raises(SystemExit) as end:
        check_command_line(words)
    assert end.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_work_is_refused_with_key_value_reason_and_advice(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words, expected = REFUSALS[name]
    answer = refusal(capsys, *words, "~recipe")
    for part in expected:
        assert part in answer
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_for_another_backbone_does_not_hide_why_this_one_cannot_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The recipe for I-JEPA on digits sets a patch size, which a ResNet has not."""
    answer = refusal(capsys, "method=ijepa", "backbone=resnet18", "data=digits")
    assert answer.startswith("tokens-needed: method=ijepa predicts tokens, and backbone=resnet18 gives none")


@pytest.mark.parametrize(
    ("method", "word", "text"),
    [
        ("simclr", "optimizer.rule=foo", "optimizer.rule=foo does not exist"),
        ("simclr", "views.global_views.first.flip=2", "flip=2 of a view is a probability"),
        ("ijepa", "masks.edges=foo", "masks.edges=foo is unknown"),
    ],
)
def test_what_only_a_constructor_can_refuse_keeps_its_words(tmp_path: Path, method: str, word: str, text: str) -> None:
    """Hydra wraps errors of constructors in one of its own, which would reach the user as a traceback."""
    with pytest.raises(ConfigError) as error:
        build(method, tmp_path, word, "probes=none")
    assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["backbone.name=vit_tiny_patch16_224", "backbone.patch_size=4"],
            "Masks lie on a grid of 8 x 8 patches, and the",
        ),
        (["backbone.name=flexivit_small"], "Masks lie on the grid of patches, and backbone.name=flexivit"),
        (["backbone.name=resnet10t"], "backbone.name=resnet10t does not take backbone.class_token"),
        (
            ["backbone.name=resnet10t"]
            + [f"backbone.{key}=null" for key in ("class_token", "positions", "patch_embed_init")],
            "IJEPA predicts tokens, and PooledBackbone gives none",
        ),
    ],
)
def test_a_timm_model_that_does_not_go_with_i_jepa_is_refused(tmp_path: Path, words: list[str], text: str) -> None:
    data, heads = ("data=fake", "data.image_size=32"), "method.predictor.predictor_dim=12"
    with pytest.raises(ConfigError) as error:
        build(
            "ijepa", tmp_path, "masks.min_keep=1", "probes=none", heads, *words, backbone=["backbone=timm"], data=data
        )
    assert str(error.value).startswith(text)


def test_an_image_folder_that_is_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = refusal(capsys, "data=image_folder", f"data.source.root={tmp_path}")
    assert f"data.source.root={tmp_path} is empty" in answer


def folder_run(folder: Path, root: Path, *words: str) -> Losses:
    """Losses of a run on six training images in files, in batches of three."""
    losses = Losses()
    data = (
        "data=image_folder", f"data.source.root={root}", "data.source.index=null", "data.image_size=16",
        "data.num_classes=2", "data.global_batch_size=3",
    )  # fmt: skip
    fit(build("simclr", folder, "probes=none", "trainer.max_epochs=1", *words, data=data), losses)
    return losses


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_image_that_is_cut_short_ends_the_run_with_its_path(tmp_path: Path, num_workers: int) -> None:
    """In a data worker too: one paragraph, without the worker's traceback."""
    damaged = cut_short(write_folder(tmp_path / "images") / "train" / "cat" / "2.png")
    with pytest.raises(ConfigError) as error:
        folder_run(tmp_path / "run", tmp_path / "images", f"data.num_workers={num_workers}")
    answer = str(error.value)
    assert answer.startswith(f"The image {damaged} cannot be read")
    assert "data.source.on_unreadable=skip" in answer
    assert "\n" not in answer


def test_an_image_that_is_cut_short_is_left_out_when_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged = cut_short(write_folder(tmp_path / "images") / "train" / "cat" / "2.png")
    with caplog.at_level(logging.WARNING):
        losses = folder_run(
            tmp_path / "run", tmp_path / "images", "data.num_workers=0", "data.source.on_unreadable=skip"
        )
    assert len(losses.values) == 2
    (told,) = [record.getMessage() for record in caplog.records if str(damaged) in record.getMessage()]
    assert "left out" in told
