from __future__ import annotations

from pathlib import Path

import pytest

from spt.config.errors import ConfigError
from spt.reporting.tensorboard import tensorboard_logger


def test_without_its_package_the_error_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spt.reporting.tensorboard.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install tensorboard"):
        tensorboard_logger(folder=str(tmp_path))
