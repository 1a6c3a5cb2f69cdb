from __future__ import annotations

from pathlib import Path

import pytest

from spt.config.errors import ConfigError
from spt.reporting.api_key import has_api_key
from spt.reporting.closing import finish
from spt.reporting.wandb import WandbRun, adopt_ids, run_ids, wandb_logger


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


def made(folder: Path, mode: str = "auto", id: str | None = None) -> WandbRun:
    return wandb_logger(
        folder=str(folder), project="p", entity=None, name=None, group=None, job_type=None, options=["dino", "vit"],
        tags=["mine", "dino", "x" * 70], id=id, mode=mode,
    )  # fmt: skip


@pytest.mark.parametrize(("mode", "said"), [("on", "use logger.wandb.mode=auto"), ("online", "wandb login")])
def test_a_mode_that_cannot_work_says_what_to_type(tmp_path: Path, mode: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(tmp_path, mode)


@pytest.mark.parametrize(("given", "said"), [("of", "use WANDB_MODE="), ("", "or unset it"), ("online", "wandb login")])
def test_a_variable_that_cannot_work_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, said: str
) -> None:
    monkeypatch.setenv("WANDB_MODE", given)
    with pytest.raises(ConfigError, match=said):
        made(tmp_path)


def test_the_variables_old_word_for_offline_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "dryrun")
    assert made(tmp_path)._wandb_init["mode"] == "offline"


def test_tags_are_the_options_and_ones_own_each_once(tmp_path: Path) -> None:
    assert made(tmp_path)._wandb_init["tags"] == ["dino", "vit", "mine", "x" * 64]


def test_an_id_is_that_of_the_agent_or_given_or_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(tmp_path)._wandb_init["id"]
    assert made(tmp_path)._wandb_init["id"] == first
    assert made(tmp_path, id="given")._wandb_init["id"] == "given"
    assert made(tmp_path)._wandb_init["id"] == "given"
    monkeypatch.setenv("WANDB_RUN_ID", "agents")
    assert made(tmp_path)._wandb_init["id"] == "agents"


def test_a_folder_takes_the_id_of_a_checkpoint_unless_it_has_one(tmp_path: Path) -> None:
    adopt_ids(tmp_path / "new", {"wandb": "old"})
    assert run_ids(tmp_path / "new") == {"wandb": "old"}
    adopt_ids(tmp_path / "new", {"wandb": "other"})
    assert run_ids(tmp_path / "new") == {"wandb": "old"}
    adopt_ids(tmp_path / "without", {})
    assert run_ids(tmp_path / "without") == {}


def test_finishing_without_a_run_does_nothing() -> None:
    finish(exit_code=1)
