"""What resume= leads to, told from names and YAML alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

import spt
from spt.checkpoint.resume import checkpoint_to_resume
from spt.config.errors import ConfigError
from spt.config.resumed import Change, changes_since, expanded, read_resumed


def run_folder(folder: Path, *steps: int, overrides: tuple[str, ...] = ("method=dino", "seed=3")) -> Path:
    """A run folder with empty checkpoints."""
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text(yaml.safe_dump(list(overrides)))
    (folder / "config_resolved.yaml").write_text(yaml.safe_dump({"seed": 3, "logger": {"folder": str(folder)}}))
    (folder / "checkpoints").mkdir()
    for step in steps:
        (folder / "checkpoints" / f"step{step:08d}.ckpt").touch()
    return folder


def test_a_run_folder_stands_for_the_words_it_was_started_with(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a", 3, overrides=("method=dino", "seed=3", "resume=auto", "+optimizer.x=1"))
    assert expanded([f"resume={folder}", "trainer.max_epochs=9"]) == [
        "method=dino", "seed=3", "+optimizer.x=1", f"resume={folder}", "trainer.max_epochs=9",
        f"hydra.run.dir={folder}",
    ]  # fmt: skip


def test_what_is_typed_now_wins_over_what_was_typed_then(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a", 3)
    assert expanded(["seed=4", f"resume={folder}"]) == [
        "method=dino",
        "seed=4",
        f"resume={folder}",
        f"hydra.run.dir={folder}",
    ]


def test_a_folder_with_a_blank_is_quoted(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a b", 3)
    assert expanded([f"resume='{folder}'"])[-1] == f"hydra.run.dir='{folder}'"


@pytest.mark.parametrize("words", [["seed=1"], ["resume=auto"], ["resume=null"], ["resume=nowhere"]])
def test_other_words_stay_as_they_are(words: list[str]) -> None:
    assert expanded(words) == words


@pytest.mark.parametrize(
    ("word", "message"),
    [("-m", "-m starts several"), ("hydra.run.dir=elsewhere", "hydra.run.dir cannot name another one")],
)
def test_words_that_contradict_a_run_folder_are_refused(tmp_path: Path, word: str, message: str) -> None:
    folder = run_folder(tmp_path / "a", 3)
    with pytest.raises(ConfigError, match=message):
        expanded([word, f"resume={folder}"])


def test_a_folder_that_does_not_say_how_it_was_started_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ConfigError, match="does not say how its run was started"):
        expanded([f"resume={tmp_path}"])


def test_the_newest_complete_checkpoint_is_found(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a", 3, 12)
    checkpoints = folder / "checkpoints"
    (checkpoints / "step00000099.ckpt").mkdir()  # a folder without its marker
    (checkpoints / "step00000050.ckpt.tmp").touch()
    for resume, run in ((str(folder), folder), ("auto", folder)):
        found = read_resumed(resume, run, {"seed": 3})
        assert (found.path, found.step) == (checkpoints / "step00000012.ckpt", 12)


def test_auto_starts_afresh_where_nothing_is(tmp_path: Path) -> None:
    assert read_resumed("auto", tmp_path, {}).path is None


def test_what_is_not_there_or_not_whole_is_told_apart(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a")
    broken = folder / "checkpoints" / "step00000009.ckpt"
    broken.mkdir()
    assert read_resumed(str(tmp_path / "b.ckpt"), tmp_path, {}).missing == str(tmp_path / "b.ckpt")
    assert read_resumed(str(folder), tmp_path, {}).missing == str(folder)
    assert read_resumed(str(broken), tmp_path, {}).incomplete == str(broken)


def test_a_later_checkpoint_in_the_own_folder_is_found(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a", 3, 12)
    early, late = (folder / "checkpoints" / f"step{step:08d}.ckpt" for step in (3, 12))
    assert read_resumed(str(early), folder, {}).later == str(late)
    assert read_resumed(str(early), tmp_path / "b", {}).later is None
    assert read_resumed(str(late), folder, {}).later is None


def test_changes_are_those_of_values_and_not_of_folders(tmp_path: Path) -> None:
    before, now = run_folder(tmp_path / "a"), tmp_path / "b"
    config = {"seed": 4, "logger": {"folder": str(now), "mode": "auto"}, "resume": "x", "trust": ["y"]}
    assert list(changes_since(before, now, config)) == [
        Change("logger.mode", None, "auto", is_new=True), Change("seed", 3, 4)
    ]  # fmt: skip


def test_a_run_that_goes_on_elsewhere_may_change_its_schedule_and_not_its_network(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a", 3, overrides=("method=dino",))
    cfg = spt.compose("method=dino", f"hydra.run.dir={folder}")
    (folder / "config_resolved.yaml").write_text(OmegaConf.to_yaml(cfg, resolve=True))
    again = spt.compose(f"resume={folder}", "trainer.max_epochs=50", "optimizer.lr=0.5")
    assert (again.trainer.max_epochs, again.optimizer.lr) == (50, 0.5)
    with pytest.raises(ConfigError, match="resume-keeps-the-experiment") as refusal:
        spt.compose(f"resume={folder}", "seed=9", "data.global_batch_size=32", "backbone.depth=3")
    for word in ("seed=0", "data.global_batch_size=", "backbone.depth="):
        assert word in str(refusal.value).partition("try: ")[2]


def test_a_run_from_before_a_key_existed_goes_on(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a", 3, overrides=("method=simclr", "backbone=timm"))
    config = OmegaConf.to_container(spt.compose("backbone=timm", f"hydra.run.dir={folder}"), resolve=True)
    assert config["backbone"].pop("patch_size") == 16
    (folder / "config_resolved.yaml").write_text(OmegaConf.to_yaml(config))
    assert spt.compose(f"resume={folder}").backbone.patch_size == 16
    with pytest.raises(ConfigError, match=r"backbone\.options\.depth=None, not 3"):
        spt.compose(f"resume={folder}", "+backbone.options.depth=3")


def test_auto_in_a_folder_named_after_the_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="resume-auto-in-a-lasting-folder"):
        spt.compose("resume=auto")
    assert spt.compose("resume=auto", f"hydra.run.dir={tmp_path}").resume == "auto"


def test_code_that_a_run_folder_names_is_refused_unless_its_package_is_trusted_now(tmp_path: Path) -> None:
    """The words are another's: what they name would be called."""
    words = ("optimizer.rules.sgd._target_=json.loads", "trust=[json]")
    folder = run_folder(tmp_path / "a", 3, overrides=words)
    (folder / "config_resolved.yaml").unlink()
    with pytest.raises(ConfigError, match=r"optimizer\.rules\.sgd\._target_=json\.loads.*is not of"):
        spt.compose(f"resume={folder}")
    cfg = spt.compose(f"resume={folder}", "trust=[json]")
    assert cfg.optimizer.rules.sgd._target_ == "json.loads"


def test_a_home_folder_may_be_written_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    newest = run_folder(tmp_path / "a", 3) / "checkpoints" / "step00000003.ckpt"
    for resume in ("~/a", "~/a/checkpoints/step00000003.ckpt"):
        assert read_resumed(resume, tmp_path / "b", {}).path == checkpoint_to_resume(resume, tmp_path / "b") == newest
