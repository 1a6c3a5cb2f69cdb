"""Pictures of whole runs: which there are, when, and that the run does not notice."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from spt.callbacks.pictures import Pictures
from spt.pictures.evaluation import Evaluation
from spt.run import Run
from tests.pictures.ranks import draw_all
from tests.pictures.shown import Shown
from tests.ranks import run_ranks
from tests.runs import METHODS, build, fit, state

EVALUATED = {"tokens", "neighbours", "embedding_map"}
OF_METHOD = {
    "byol": {"views", "attention"},
    "dino": {"views", "attention"},
    "ijepa": {"views", "masks"},
    "simclr": {"views", "attention"},
}


class RandomState(Callback):
    """Keeps torch's global random state at the start of every step."""

    def __init__(self) -> None:
        self.states: list[Tensor] = []

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: object, batch_idx: int) -> None:
        self.states.append(torch.get_rng_state())


def shown_of(run: Run, *callbacks: Callback) -> Shown:
    shown = Shown()
    run.trainer.loggers = [*run.trainer.loggers, shown]
    fit(run, *callbacks)
    return shown


def plots(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "plots").glob("*.png")}


@pytest.mark.parametrize("method", METHODS)
def test_pictures_are_drawn_and_weights_are_bit_identical_without_them(tmp_path: Path, method: str) -> None:
    """Trap 81."""
    drawn, alone = tmp_path / "drawn", tmp_path / "alone"
    states, states_alone = RandomState(), RandomState()
    with_pictures = build(method, drawn, has_pictures=True)
    shown = shown_of(with_pictures, states)
    without = fit(build(method, alone), states_alone)
    assert plots(drawn) == {name for name, _ in shown.pictures} == EVALUATED | OF_METHOD[method]
    assert plots(alone) == set()
    for name, value in state(with_pictures).items():
        assert torch.equal(value, state(without)[name]), name
    assert len(states.states) == 6
    assert all(torch.equal(a, b) for a, b in zip(states.states, states_alone.states, strict=True))
    assert with_pictures.module.method.networks.student.training  # as it was


def test_pictures_come_at_the_start_every_few_epochs_and_at_the_end(tmp_path: Path) -> None:
    left_out = (f"~callbacks.pictures.painters.{name}" for name in ("attention", "neighbours", "embedding_map"))
    words = ("callbacks.pictures.every_n_epochs=2", "trainer.max_epochs=5", *left_out)  # of three steps
    shown = shown_of(build("simclr", tmp_path, *words, has_pictures=True))
    # steps never fall: a service that counts them drops what comes late
    assert shown.pictures == [
        ("tokens", 0), ("views", 0), ("tokens", 6), ("views", 6), ("tokens", 12), ("views", 12), ("tokens", 15),
    ]  # fmt: skip


def test_a_run_that_ends_between_two_evaluations_is_drawn_at_its_end(tmp_path: Path) -> None:
    left_out = (f"~callbacks.pictures.painters.{name}" for name in ("views", "tokens", "neighbours", "embedding_map"))
    words = ("trainer.max_epochs=-1", "trainer.max_steps=2", *left_out)
    run, shown = build("dino", tmp_path, *words, has_pictures=True), Shown()
    run.trainer.loggers = [*run.trainer.loggers, shown]
    run.fit()
    assert shown.pictures == [("attention", 0), ("attention", 2)]


def test_without_probes_batches_alone_are_drawn(tmp_path: Path) -> None:
    shown = shown_of(build("ijepa", tmp_path, "probes=none", has_pictures=True))
    assert {name for name, _ in shown.pictures} == {"views", "masks"}


def test_a_painter_can_be_left_out_by_name(tmp_path: Path) -> None:
    words = ("~callbacks.pictures.painters.tokens", "callbacks.pictures.painters.neighbours=null")
    fit(build("simclr", tmp_path, *words, has_pictures=True))
    assert plots(tmp_path) == {"views", "attention", "embedding_map"}


def test_a_convolutional_network_has_neither_attention_nor_tokens(tmp_path: Path) -> None:
    run = build("simclr", tmp_path, "trainer.max_epochs=1", backbone=("backbone=resnet18",), has_pictures=True)
    fit(run)
    assert plots(tmp_path) == {"views", "neighbours", "embedding_map"}


def test_validation_images_are_spread_over_the_set(tmp_path: Path) -> None:
    """Files are sorted by class."""
    run = build("simclr", tmp_path, has_pictures=True)
    (pictures,) = [callback for callback in run.trainer.callbacks if isinstance(callback, Pictures)]  # type: ignore[attr-defined]
    assert pictures.num_images == 2
    run.trainer.datamodule = run.data  # type: ignore[attr-defined]
    evaluation = Evaluation(run.trainer, run.module, {}, 6)
    assert evaluation.shown == [0, 2, 4, 7, 9, 11]  # of 14
    assert evaluation.spread(20) == list(range(14))
    assert evaluation.view.shape == (6, 3, 16, 16)


def test_divided_networks_are_drawn_like_whole_ones(tmp_path: Path) -> None:
    """On two ranks under ddp and fsdp2: every rank calls the networks, rank 0 draws; nothing waits for ever."""
    (one,) = run_ranks(draw_all, 1, tmp_path / "one", ["single"])
    two, other = run_ranks(draw_all, 2, tmp_path / "two", ["ddp", "fsdp2"])
    assert other == {"ddp": {}, "fsdp2": {}}
    for strategy in ("ddp", "fsdp2"):
        assert two[strategy].keys() == one["single"].keys() == EVALUATED | {"attention", "views"}
        for name, pixels in one["single"].items():
            if name != "views":  # a rank draws its own share of the batch
                difference = (two[strategy][name].float() - pixels.float()).abs().mean()
                assert difference < 0.5, (strategy, name)
