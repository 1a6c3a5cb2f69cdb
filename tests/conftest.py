"""What every test starts from."""

from __future__ import annotations

import os

# networks here are small: a second thread for each process would only wait; processes that tests start inherit it
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The same random numbers in every test, whatever ran before it."""
    torch.manual_seed(0)
