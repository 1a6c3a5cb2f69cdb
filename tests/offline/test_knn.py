"""k-NN after training against the run's own probe, and against a loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from spt.config.errors import ConfigError
from spt.config.evaluation import compose_evaluation
from spt.evaluate import knn
from spt.evaluation.rows import Rows
from spt.export.evaluated import Evaluated
from spt.export.export import export_backbone
from spt.offline.knn import knn_accuracies
from spt.reporting.metrics_file import read_metrics
from tests.offline.runs import copy_of_trained, random_rows, trained

NUM_VAL = 180


def result(folder: Path, name: str = "knn") -> dict[str, object]:
    content: dict[str, object] = json.loads((folder / "evaluation" / f"{name}.json").read_text())
    return content


@pytest.mark.parametrize("words", [(), ("precision=bf16-mixed",)], ids=["32-true", "bf16-mixed"])
def test_it_equals_the_runs_own_probe_to_the_image(words: tuple[str, ...]) -> None:
    """The same bank, images, views, precision and votes, from the checkpoint alone."""
    folder = trained("simclr", *words)
    value = knn(compose_evaluation("knn", f"source={folder}"))
    online = read_metrics(folder / "metrics.csv")[-1]["val/knn_top1"]
    assert round(value * NUM_VAL) == round(online * NUM_VAL)
    assert 0.15 < value < 0.95  # an accuracy that says something
    written = result(folder)
    assert (written["value"], written["step"], written["data"]) == (value, 4, "digits")
    assert written["online"] == pytest.approx(online)
    assert written["split"] == "180 validation images, bank of 150 training images"


def test_the_network_is_the_one_that_the_method_evaluates() -> None:
    """Trap 80: of DINO the teacher, whose weights differ from the student's."""
    folder = trained("dino")
    value = knn(compose_evaluation("knn", f"source={folder}"))
    online = read_metrics(folder / "metrics.csv")[-1]["val/knn_top1"]
    assert round(value * NUM_VAL) == round(online * NUM_VAL)
    assert result(folder)["network"] == "teacher"


def test_an_earlier_checkpoint_and_other_data_are_other_results(tmp_path: Path) -> None:
    folder = copy_of_trained(tmp_path / "run")
    checkpoint = folder / "checkpoints" / "step00000004.ckpt"
    knn(compose_evaluation("knn", f"source={checkpoint}", "k=[3]", "reported_k=3"))
    fake = (
        "data=fake",
        "data.image_size=16",
        "data.num_images=30",
        "data.source.num_val_images=12",
        "data.bank_size=9",
    )
    knn(compose_evaluation("knn", f"source={folder}", *fake))
    assert sorted(path.name for path in (folder / "evaluation").iterdir()) == [
        "knn-fake.json", "knn-step00000004.json",
    ]  # fmt: skip
    assert result(folder, "knn-fake")["online"] is None
    assert result(folder, "knn-step00000004")["k"] == 3


@pytest.mark.parametrize("words", [(), ("precision=bf16-mixed",)], ids=["32-true", "bf16-mixed"])
def test_an_export_in_the_runs_folder_has_the_runs_figure_under_a_name_of_its_own(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """On the run's data; an export does not know the precision that its run was evaluated in."""
    folder = copy_of_trained(tmp_path / "run", *words)
    evaluated = Evaluated(folder, checkpoint="last", packages=[])
    exported, _ = export_backbone(evaluated, format="safetensors", output=None, verify=False)
    value = knn(compose_evaluation("knn", f"source={exported}", *words))
    assert [path.name for path in (folder / "evaluation").iterdir()] == [f"knn-{exported.stem}.json"]
    online = result(folder, f"knn-{exported.stem}")["online"]
    assert isinstance(online, float)
    assert round(value * NUM_VAL) == round(online * NUM_VAL)


def naive_accuracy(bank: Rows, queries: Rows, k: int, temperature: float, num_classes: int) -> float:
    right = 0
    for query, label in zip(queries.embeddings, queries.labels, strict=True):
        similarities = [float(torch.cosine_similarity(query, other, dim=0)) for other in bank.embeddings]
        nearest = sorted(range(len(similarities)), key=lambda place: -similarities[place])[:k]
        votes = [0.0] * num_classes
        for place in nearest:
            votes[int(bank.labels[place])] += float(torch.tensor(similarities[place] / temperature).exp())
        right += max(range(num_classes), key=lambda name: votes[name]) == int(label)
    return right / len(queries.labels)


def test_every_number_of_neighbours_equals_a_loop_over_images() -> None:
    """Trap 82: also more neighbours than there are images, and images without a label."""
    bank, queries = random_rows(23, 5, 4).rows("embedding"), random_rows(17, 5, 4, seed=1).rows("embedding")
    expected = {k: naive_accuracy(bank, queries, k, 0.5, 4) for k in (1, 5, 100)}
    unlabelled = Rows(torch.randn(3, 5), torch.full((3,), -1), torch.arange(3))
    found = knn_accuracies(
        _with(bank, unlabelled), _with(queries, unlabelled), ks=[1, 5, 100], temperature=0.5, num_classes=4
    )
    assert found == pytest.approx(expected)
    assert len(set(expected.values())) > 1


def _with(rows: Rows, others: Rows) -> Rows:
    columns: list[Tensor] = [torch.cat(pair) for pair in zip(rows, others, strict=True)]
    return Rows(*columns)


def test_no_neighbour_is_refused() -> None:
    rows = random_rows(3, 2, 2).rows("embedding")
    with pytest.raises(ConfigError, match=r"use 'k=\[20\]'"):
        knn_accuracies(rows, rows, ks=[0], temperature=0.5, num_classes=2)
