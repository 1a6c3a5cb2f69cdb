"""What is known of metrics by their names: where a reader looks for them, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

SECTIONS = {
    "learning": "Learning curves",
    "accuracy": "Accuracy",
    "collapse": "Collapse",
    "schedules": "Schedules",
    "speed": "Speed",
}
"""Parts of a page with charts, by id, in order."""

_TITLES = {
    "train/loss": "Loss",
    "train/grad_norm": "Gradient norm",
    "train/contrastive_accuracy": "Contrastive accuracy in the batch",
    "val/knn_top1": "k-NN top-1",
    "val/linear_top1": "Linear top-1",
    "collapse/embedding_std": "Std of normalised embeddings",
    "collapse/rankme": "RankMe (effective rank)",
    "collapse/teacher_entropy": "Entropy of the teacher's targets",
    "train/lr": "Learning rate",
    "train/weight_decay": "Weight decay",
    "train/teacher_momentum": "Teacher momentum",
    "train/teacher_temperature": "Teacher temperature",
    "train/images_per_second": "Images per second",
    "train/data_wait": "Share of time waiting for data",
    "system/memory_gib": "Memory (GiB)",
}
_SCHEDULES = ("lr", "weight_decay", "teacher_momentum", "momentum", "teacher_temperature", "temperature")
_SPEED = ("images_per_second", "data_wait", "step_seconds")
_RANKING = ("val/knn_top1", "val/linear_top1")


class Metric(NamedTuple):
    """A column of metrics.csv.

    Attributes:
        name: "stage/name".
        title: for people.
        section: id of the part of the page that shows it.
    """

    name: str
    title: str
    section: str

    @property
    def marks_start(self) -> bool:
        """Whether the value of the untrained network is worth a line of its own."""
        return self.section in ("accuracy", "collapse")


def known_metrics(names: Iterable[str]) -> list[Metric]:
    """Those of the names that are metrics: known ones first and in a fixed order, the others as they come."""
    given = [name for name in dict.fromkeys(names) if "/" in name]
    ordered = [name for name in _TITLES if name in given] + [name for name in given if name not in _TITLES]
    return [Metric(name, _TITLES.get(name) or _title(name), _section(name)) for name in ordered]


def ranking_metric(names: Iterable[str]) -> str | None:
    """The accuracy that runs are compared by: k-NN top-1 where it was measured; None where no accuracy was."""
    given = list(names)
    others = [name for name in given if name.startswith("val/") and "top1" in name]
    return next((name for name in [*_RANKING, *others] if name in given), None)


def _section(name: str) -> str:
    stage, _, rest = name.partition("/")
    if stage == "val":
        return "accuracy"
    if stage == "collapse":
        return "collapse"
    if rest in _SCHEDULES:
        return "schedules"
    return "speed" if rest in _SPEED or stage == "system" else "learning"


def _title(name: str) -> str:
    words = name.partition("/")[2].replace("_", " ")
    return words[:1].upper() + words[1:]
