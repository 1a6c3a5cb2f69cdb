"""What every test starts from."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The same random numbers in every test, whatever ran before it."""
    torch.manual_seed(0)
