from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from lightning import Callback, LightningModule, Trainer

from spt.evaluation.knn import knn_predict
from spt.probes.collapse import CollapseProbe
from spt.probes.knn import KNNProbe
from spt.probes.linear import LinearProbe
from spt.probes.probe import Probe
from spt.reporting.metrics_file import MetricsFile, read_metrics
from spt.reporting.quiet import quiet
from tests.callbacks.tiny import NUM_CLASSES, TinyModule, fit, loader, samples

ACCURACIES = {"val/knn_top1", "val/linear_top1"}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quiet()


def linear_probe(lr: float = 1.0) -> LinearProbe:
    return LinearProbe(
        lr=lr,
        momentum=0.9,
        weight_decay=0.0,
        statistics_momentum=0.9,
        num_classes=NUM_CLASSES,
        bank_passes=5,
        bank_batch_size=4,
        seed=0,
    )


def probes() -> list[Callback]:
    knn = KNNProbe(k=4, temperature=0.07, num_classes=NUM_CLASSES)
    collapse = CollapseProbe(min_embedding_std=0.1, min_rankme=1.5, num_images=10)
    return [knn, linear_probe(), collapse]


def expected_knn(module: TinyModule) -> float:
    bank, val = samples(3, 5, 2), samples(2, 8, 4)
    with torch.no_grad():
        scores = knn_predict(
            torch.cat([module.embed(batch.images) for batch in bank]),  # type: ignore[arg-type]
            bank_labels=torch.cat([batch.labels for batch in bank]),
            queries=torch.cat([module.embed(batch.images) for batch in val]),  # type: ignore[arg-type]
            k=4,
            temperature=0.07,
            num_classes=NUM_CLASSES,
        )
    return float((scores.argmax(dim=1) == torch.cat([batch.labels for batch in val])).float().mean())


def test_knn_accuracy_is_that_of_the_whole_validation_set(tmp_path: Path) -> None:
    module = TinyModule()
    trainer = fit(module, tmp_path, probes())
    assert float(trainer.callback_metrics["val/knn_top1"]) == pytest.approx(expected_knn(module))


def test_the_untrained_network_is_measured_before_the_first_step(tmp_path: Path) -> None:
    module = TinyModule()
    before = expected_knn(module)
    fit(module, tmp_path, probes(), loggers=[MetricsFile(tmp_path)])
    assert module.metrics_at_start["val/knn_top1"] == pytest.approx(before)
    assert module.metrics_at_start.keys() == ACCURACIES | {"collapse/embedding_std", "collapse/rankme"}
    first = read_metrics(tmp_path / "metrics.csv")[0]
    assert first["step"] == 0
    assert first["val/knn_top1"] == pytest.approx(before)


def test_the_untrained_network_gets_a_fitted_classifier_rather_than_chance(tmp_path: Path) -> None:
    module = TinyModule()
    fit(module, tmp_path, probes())
    assert module.metrics_at_start["val/linear_top1"] > 0.6  # the classes are linearly separable but for the noise


def test_an_accuracy_stands_in_the_row_of_the_steps_that_made_its_weights(tmp_path: Path) -> None:
    fit(TinyModule(), tmp_path, probes(), loggers=[MetricsFile(tmp_path)], max_epochs=2, num_batches=4)
    rows = read_metrics(tmp_path / "metrics.csv")
    assert [row["step"] for row in rows if "val/knn_top1" in row] == [0, 4, 8]
    assert [row["step"] for row in rows if "train/loss" in row] == list(range(8))


def test_an_evaluation_after_training_stands_in_the_row_of_the_last_step(tmp_path: Path) -> None:
    module = TinyModule()
    trainer = fit(module, tmp_path, probes(), loggers=[MetricsFile(tmp_path)], max_epochs=1, num_batches=4)
    trainer.validate(module, [loader(samples(3, 5, 2)), loader(samples(2, 8, 4))], verbose=False)
    rows = read_metrics(tmp_path / "metrics.csv")
    assert [row["step"] for row in rows if "val/knn_top1" in row] == [0, 4]


def test_probes_change_no_weight_and_draw_nothing(tmp_path: Path) -> None:
    """Trap 81."""

    class WatchRandomState(Callback):
        def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
            self.state = torch.random.get_rng_state()

    watch, watch_alone = WatchRandomState(), WatchRandomState()
    torch.manual_seed(0)
    probed = TinyModule()
    fit(probed, tmp_path, [*probes(), watch])
    torch.manual_seed(0)
    alone = TinyModule()
    fit(alone, tmp_path, [watch_alone])
    assert torch.equal(probed.encoder.weight, alone.encoder.weight)
    assert torch.equal(watch.state, watch_alone.state)


def test_the_linear_probe_steps_once_per_optimizer_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = linear_probe()
    steps: list[int] = []
    step = probe.classifier.step

    def counted() -> None:
        steps.append(len(steps))
        step()

    monkeypatch.setattr(probe.classifier, "step", counted)
    trainer = fit(TinyModule(), tmp_path, [probe], max_epochs=2, num_batches=6, accumulate_grad_batches=3)
    assert len(steps) == trainer.global_step == 4


def test_the_linear_probe_learns(tmp_path: Path) -> None:
    trainer = fit(TinyModule(), tmp_path, [linear_probe(lr=10.0)], max_epochs=8)
    assert float(trainer.callback_metrics["val/linear_top1"]) > 0.8


def test_a_resumed_linear_probe_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    """Trap 19."""
    whole, first, second = linear_probe(), linear_probe(), linear_probe()
    fit(TinyModule(), tmp_path, [whole], max_epochs=3)
    path = str(tmp_path / "checkpoint.ckpt")
    fit(TinyModule(), tmp_path, [first], max_epochs=2).save_checkpoint(path)
    fit(TinyModule(), tmp_path, [second], max_epochs=3, checkpoint=path)
    for name, value in whole.classifier.state_dict().items():
        assert torch.equal(value, second.classifier.state_dict()[name])


def test_a_resumed_network_is_not_taken_for_the_untrained_one(tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint.ckpt")
    fit(TinyModule(), tmp_path, probes(), loggers=[MetricsFile(tmp_path)], max_epochs=2).save_checkpoint(path)
    before = read_metrics(tmp_path / "metrics.csv")
    resumed = TinyModule()
    fit(resumed, tmp_path, probes(), loggers=[MetricsFile(tmp_path)], max_epochs=3, checkpoint=path)
    after = read_metrics(tmp_path / "metrics.csv")
    assert resumed.metrics_at_start == {}
    assert after[: len(before) - 1] == before[:-1]
    assert [row["step"] for row in after] == list(range(13))


def collapse_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "spt.probes.collapse"]


class Shrink(Callback):
    """Makes all embeddings of a TinyModule alike once it has been trained."""

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TinyModule)
        if trainer.sanity_checking:
            return
        with torch.no_grad():
            pl_module.encoder.weight.zero_()
            pl_module.encoder.bias.fill_(5.0)


def test_a_collapse_is_told_once_with_what_to_look_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    probe = CollapseProbe(min_embedding_std=0.3, min_rankme=1.5, num_images=10)
    with caplog.at_level(logging.WARNING):
        fit(TinyModule(), tmp_path, [probe, Shrink()], max_epochs=3)
    told = collapse_warnings(caplog)
    assert [message.split()[0] for message in told] == ["collapse/embedding_std", "collapse/rankme"]
    assert all("Look at" in message and "untrained network" in message for message in told)


def test_a_network_that_starts_below_the_threshold_and_rises_is_not_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class StartLow(Callback):
        def on_sanity_check_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
            assert isinstance(pl_module, TinyModule)
            pl_module.metrics_at_start = dict.fromkeys(pl_module.metrics_at_start, 0.0)

    probe = CollapseProbe(min_embedding_std=1e6, min_rankme=1e6, num_images=10)
    fit(TinyModule(), tmp_path, [probe, StartLow()])
    assert collapse_warnings(caplog) == []


def test_every_probe_frees_its_embeddings(tmp_path: Path) -> None:
    used = probes()
    fit(TinyModule(), tmp_path, used)
    for probe in used:
        assert isinstance(probe, Probe)
        assert not any(probe._parts.values())
