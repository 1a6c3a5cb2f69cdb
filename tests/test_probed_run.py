"""Probes measure a run without touching it, and labels stay with them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from spt.evaluation.rows import Rows
from spt.probes.knn import KNNProbe
from spt.probes.linear import LinearProbe
from spt.probes.probe import BANK, VAL
from spt.reporting.metrics_file import read_metrics
from spt.run import Run
from spt.types import Batch
from tests.runs import METHODS, NUM_VAL, build, fit, state

PROBED = {"val/knn_top1", "val/linear_top1", "collapse/embedding_std", "collapse/rankme"}
LOGGED = {
    "train/loss", "train/lr", "train/weight_decay", "train/grad_norm", "train/images_per_second", "train/data_wait",
    "system/memory_gib",
}  # fmt: skip
OF_METHOD = {
    "byol": {"train/teacher_momentum"},
    "dino": {"train/teacher_momentum", "train/teacher_temperature", "collapse/teacher_entropy"},
    "ijepa": {"train/teacher_momentum", "train/context_tokens"},
    "simclr": {"train/contrastive_accuracy"},
}


@pytest.fixture(scope="module", params=METHODS)
def probed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of each method with all probes."""
    return fit(build(request.param, tmp_path_factory.mktemp("probed"), "seed=3"))


def method_of(run: Run) -> str:
    return run.choices["method"]


def test_weights_are_bit_identical_with_probes_on_and_off(probed: Run, tmp_path: Path) -> None:
    """Trap 81."""
    alone = fit(build(method_of(probed), tmp_path, "seed=3", "probes=none"))
    for name, value in state(probed).items():
        assert torch.equal(value, state(alone)[name]), name


def test_labels_reach_no_weight(probed: Run, tmp_path: Path) -> None:
    """The same images under other labels leave the same network, and another linear probe."""
    other = build(method_of(probed), tmp_path, "seed=3")
    other.data.splits.train.labels.fill_(7)
    fit(other)
    for name, value in state(probed).items():
        assert torch.equal(value, state(other)[name]), name
    first, second = (classifier(run)["weights"] for run in (probed, other))
    assert not torch.equal(first, second)


def classifier(run: Run) -> dict[str, Tensor]:
    """State of the linear probe."""
    (probe,) = [callback for callback in run.trainer.callbacks if isinstance(callback, LinearProbe)]  # type: ignore[attr-defined]
    return probe.state_dict()


def test_a_method_is_given_views_and_masks_and_nothing_else(probed: Run) -> None:
    assert Batch._fields == ("global_views", "local_views", "masks")
    assert isinstance(probed.module.last_batch, Batch)


def test_every_metric_is_in_the_file(probed: Run) -> None:
    rows = read_metrics(probed.folder / "metrics.csv")
    names = {name for row in rows for name in row if "/" in name}
    assert names == PROBED | LOGGED | OF_METHOD[method_of(probed)]
    assert all(math.isfinite(value) for row in rows for value in row.values())
    assert [row["step"] for row in rows if "train/loss" in row] == [0, 1, 2, 3, 4, 5]
    assert [row["step"] for row in rows if "val/knn_top1" in row] == [0, 3, 6]


def test_the_untrained_network_is_measured_by_every_probe(probed: Run) -> None:
    assert probed.module.metrics_at_start.keys() == PROBED
    first = read_metrics(probed.folder / "metrics.csv")[0]
    for name, value in probed.module.metrics_at_start.items():
        assert first[name] == pytest.approx(value)


@torch.no_grad()
def embeddings(run: Run, loader: int) -> Rows:
    """What the evaluated network makes of a validation loader's images."""
    run.module.eval()
    samples = list(run.data.val_dataloader()[loader])
    views = [run.module.views.evaluation_view(sample.images) for sample in samples]
    return Rows(
        torch.cat([run.module.method.embed(images) for images in views]),
        torch.cat([sample.labels for sample in samples]),
        torch.cat([sample.indices for sample in samples]),
    )


def test_accuracies_are_of_the_whole_validation_set(probed: Run) -> None:
    """Trap 83: every image once, the last and smaller batch too."""
    rows = {loader: embeddings(probed, loader) for loader in (BANK, VAL)}
    assert rows[VAL].indices.tolist() == list(range(NUM_VAL))
    assert len(set(rows[BANK].indices.tolist())) == 10
    last = read_metrics(probed.folder / "metrics.csv")[-1]
    probes = [probe for probe in probed.trainer.callbacks if isinstance(probe, (KNNProbe, LinearProbe))]  # type: ignore[attr-defined]
    assert len(probes) == 2
    for probe in probes:
        for name, value in probe.measure(probed.trainer, probed.module, rows).items():
            assert last[name] == pytest.approx(value), name
