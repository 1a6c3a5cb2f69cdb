from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spt.config.errors import ConfigError
from spt.reporting.wandb import finish, has_api_key, wandb_logger


@pytest.fixture(autouse=True)
def _no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE", "WANDB_RUN_ID", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_a_key_is_found_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_api_key()
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert has_api_key()


def test_a_key_is_found_in_a_netrc_file(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    netrc = tmp_path / "home" / ".netrc"
    netrc.write_text("machine api.wandb.ai login user password " + "0" * 40 + "\n")
    netrc.chmod(0o600)
    assert has_api_key()


@pytest.mark.parametrize(("mode", "said"), [("on", "use logger.wandb.mode=auto"), ("online", "wandb login")])
def test_a_mode_that_cannot_work_says_what_to_type(tmp_path: Path, mode: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        wandb_logger(
            folder=str(tmp_path), project="p", entity=None, name=None, group=None, job_type=None, tags=[], mode=mode
        )


def test_finishing_without_a_run_does_nothing() -> None:
    finish(exit_code=1)


RUN = """
import logging, sys
from pathlib import Path
logging.basicConfig(level=logging.INFO, format="%(message)s")
from spt.reporting.wandb import finish, wandb_logger
logger = wandb_logger(folder=sys.argv[1], project="p", entity=None, name="n", group="g", job_type="pretrain",
                      tags=["t"], mode="auto")
logger.log_metrics({"train/loss": 1.5}, step=3)
print("id", logger.experiment.id)
finish(exit_code=0)
"""


def start(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, str(folder)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_without_a_key_a_run_is_offline_and_keeps_its_id(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    first, second = start(folder), start(folder)
    assert first.returncode == 0, first.stderr
    assert "wandb sync" in first.stderr
    run_id = (folder / "wandb_id.txt").read_text().strip()
    assert f"id {run_id}" in first.stdout
    assert f"id {run_id}" in second.stdout
    [*files] = (folder / "wandb").glob(f"offline-run-*-{run_id}/run-{run_id}.wandb")
    assert files
    assert all(file.stat().st_size > 100 for file in files)
