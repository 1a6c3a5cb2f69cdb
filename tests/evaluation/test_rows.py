from __future__ import annotations

import subprocess
import sys

import torch

from spt.evaluation.rows import Rows, concatenate, gather_unique


def rows(indices: list[int]) -> Rows:
    index = torch.tensor(indices)
    return Rows(index[:, None] * torch.tensor([[1.0, 10.0]]), index % 3 - 1, index)


def test_a_padded_duplicate_counts_once() -> None:
    """Trap 83."""
    unique = gather_unique(rows([4, 0, 2, 0, 4, 1]))
    assert unique.indices.tolist() == [0, 1, 2, 4]
    assert unique.embeddings.tolist() == [[0.0, 0.0], [1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]


def test_no_rows_give_no_rows() -> None:
    assert len(gather_unique(rows([])).indices) == 0


def test_rows_without_a_label_can_be_left_out() -> None:
    labelled = concatenate([rows([0, 1]), rows([2, 3])]).labelled()
    assert labelled.indices.tolist() == [1, 2]


def test_three_processes_see_what_one_would() -> None:
    """Trap 83, with ten images over three processes; and probe weights that are bit-identical on all of them."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluation.three_processes"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("agrees") == 3
