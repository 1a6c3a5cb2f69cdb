"""Linear evaluation: what is learnt from, what chooses, what is scored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate

from spt.config.errors import ConfigError
from spt.config.evaluation import compose_evaluation, tree_of
from spt.evaluate import linear_probe as evaluate_linear
from spt.offline.linear_probe import held_out_rows, linear_probe
from spt.offline.linear_protocol import LinearProtocol
from spt.views.view import View
from tests.offline.runs import copy_of_trained, data_of, embedder, trained

PROTOCOLS = tree_of("linear_probe").options("protocol")
GRID = LinearProtocol(
    features=["embedding", "mean1"], base_lrs=[0.01, 1.0], batch_size=256, epochs=3, warmup_epochs=0, update="sgd",
    momentum=0.9, nesterov=False, weight_decay=0.0, trust_coefficient=0.001, normalise="batch_norm", init_std=0.01,
    augmentation=None,
)  # fmt: skip
SINGLE = replace(GRID, features=["embedding"], base_lrs=[1.0])


def run(protocol: LinearProtocol, *, held_out: float = 0.1, refit: bool = True):  # type: ignore[no-untyped-def]
    folder = trained()
    data = data_of(folder)
    made = embedder(folder, *protocol.features, augmentation=protocol.augmentation, data=data)
    return linear_probe(made, data, protocol, held_out=held_out, refit=refit, seed=0)


def test_held_out_images_are_a_part_of_the_labelled_training_images() -> None:
    """Trap 85."""
    labels = torch.arange(100) % 5 - 1  # a fifth has none
    train, held_out = held_out_rows(labels, share=0.25, seed=0)
    assert len(held_out) == 20
    assert sorted([*train.tolist(), *held_out.tolist()]) == (labels >= 0).nonzero()[:, 0].tolist()
    again, _ = held_out_rows(labels, share=0.25, seed=0)
    other, _ = held_out_rows(labels, share=0.25, seed=1)
    assert torch.equal(train, again)
    assert not torch.equal(train, other)


def test_all_candidates_are_told_and_the_best_on_held_out_images_is_chosen() -> None:
    result = run(GRID)
    assert [(one.features, one.base_lr) for one in result.candidates] == [
        ("embedding", 0.01), ("embedding", 1.0), ("mean1", 0.01), ("mean1", 1.0),
    ]  # fmt: skip
    best = max(result.candidates, key=lambda one: one.top1)
    assert (result.features, result.base_lr) == (best.features, best.base_lr)
    assert len({one.top1 for one in result.candidates}) > 1
    assert (result.num_train, result.num_held_out, result.num_val) == (1617, 162, 180)


def test_what_was_chosen_learns_anew_from_all_training_images_as_it_would_alone() -> None:
    result = run(GRID)
    alone = run(replace(GRID, features=[result.features], base_lrs=[result.base_lr]))
    assert (alone.candidates, alone.num_held_out) == ([], 0)
    assert alone.top1 == result.top1


def test_without_refit_the_held_out_images_are_never_learnt_from() -> None:
    result = run(GRID, refit=False)
    assert result.num_train == 1617 - 162


def test_a_choice_without_images_to_choose_by_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"held_out=0\.1"):
        run(GRID, held_out=0.0)
    assert run(SINGLE, held_out=0.0).num_held_out == 0


PLAIN = View(
    crop_scale=[1.0, 1.0], crop_ratio=[0.01, 100.0], interpolation="bicubic", flip=0.0, jitter=0.0, brightness=0.0,
    contrast=0.0, saturation=0.0, hue=0.0, brightness_mode="multiplicative", gray=0.0, blur=0.0, blur_sigma=[0.1, 2.0],
    blur_reference_size=16, solarize=0.0, solarize_threshold=0.5,
)  # fmt: skip


def test_an_augmentation_that_changes_nothing_gives_what_cached_features_give() -> None:
    """The two paths differ in the order of the images alone, which does not matter to a step on all of them."""
    whole = replace(SINGLE, batch_size=1617, base_lrs=[0.05])
    assert run(replace(whole, augmentation=PLAIN)).top1 == pytest.approx(run(whole).top1, abs=1 / 180)


def test_every_pass_sees_other_augmentations() -> None:
    flipped = replace(PLAIN, flip=0.5)
    folder = trained()
    data = data_of(folder)
    made = embedder(folder, "embedding", augmentation=flipped, data=data)
    rows = torch.arange(40)
    passes = []
    for epoch in (0, 1, 1):
        (batch,) = made.augmented(data.training_batches(rows, epoch=epoch, batch_size=64))
        passes.append(batch.features["embedding"][batch.indices.argsort()])
    assert torch.equal(passes[1], passes[2])
    assert not torch.equal(passes[0], passes[1])


@pytest.mark.parametrize("option", PROTOCOLS)
def test_every_protocol_composes_and_says_how_it_is_augmented(option: str) -> None:
    cfg = compose_evaluation("linear_probe", "source=timm:vit_tiny_patch16_224", "data=digits", f"protocol={option}")
    protocol = instantiate(cfg.protocol, _convert_="all")
    assert isinstance(protocol, LinearProtocol)
    assert (protocol.augmentation is None) == (option == "grid")
    shares = [protocol.share(step, steps_per_epoch=10) for step in range(10 * protocol.epochs)]
    assert max(shares) == pytest.approx(1.0)
    assert shares[-1] < 0.001
    assert (shares[0] == 0) == (protocol.warmup_epochs > 0)


def test_the_result_says_what_was_done_and_stands_beside_the_runs_own_figure(tmp_path: Path) -> None:
    folder = copy_of_trained(tmp_path / "run")
    words = ("protocol.epochs=2", "protocol.base_lrs=[0.1,1.0]")
    value = evaluate_linear(compose_evaluation("linear_probe", f"source={folder}", *words))
    written = json.loads((folder / "evaluation" / "linear_probe-grid.json").read_text())
    assert written["value"] == value
    assert written["online"] is not None
    assert written["chosen_by"] == "chosen of 2 by 162 held-out training images"
    assert written["protocol"] == "grid"
    assert len(written["candidates"]) == 2


@pytest.mark.parametrize(
    "word", ["protocol.epochs=0", "protocol.update=adam", "protocol.base_lrs=[]", "protocol.base_lrs=[-1.0]"]
)
def test_numbers_that_mean_nothing_are_refused(word: str) -> None:
    cfg = compose_evaluation("linear_probe", "source=timm:vit_tiny_patch16_224", "data=digits", word)
    with pytest.raises(Exception, match=r"use sgd or lars|at least") as error:
        instantiate(cfg.protocol, _convert_="all")
    assert isinstance(error.value.__cause__, ConfigError)
