"""train.py as it is typed, up to the moment where a run would start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spt.config.command_line import check_command_line, plain_errors
from spt.config.composer import open_composer
from spt.config.errors import ConfigError
from spt.config.help import CONF, GROUPS, OF_SCRIPTS, help_text
from spt.config.tree import ConfigTree

ROOT = Path(__file__).resolve().parents[2]
REPORT = """
import json, runpy, sys
sys.argv = json.loads(sys.argv[1])
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})), file=open("modules.json", "w"))
"""


class Answer:
    """What a command printed, how it ended, and which packages it had imported."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        argv = json.dumps([str(ROOT / "train.py"), *arguments])
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", REPORT, argv],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.status, self.output, self.errors = done.returncode, done.stdout, done.stderr
        self.packages = set(json.loads((folder / "modules.json").read_text()))
        (folder / "modules.json").unlink()
        self.written = {path.name for path in folder.iterdir()}


def test_help_comes_before_hydra(tmp_path: Path) -> None:
    answer = Answer(tmp_path, "method=dino", "--help")
    assert answer.status == 0
    assert answer.output.count("python train.py") >= 6
    assert not answer.packages & {"hydra", "omegaconf", "yaml", "torch"}


def test_a_training_imports_none_of_the_packages_that_it_does_not_use(tmp_path: Path) -> None:
    words = (
        "data=fake", "data.image_size=16", "data.num_images=16", "data.source.num_val_images=4", "data.bank_size=4",
        "data.global_batch_size=8", "backbone.embed_dim=16", "backbone.depth=1", "trainer.max_epochs=1",
        "trainer.accelerator=cpu", "optimizer.lr_schedule.warmup_epochs=0", "probes.knn.k=1",
    )  # fmt: skip
    answer = Answer(tmp_path, *words)
    assert answer.status == 0, answer.errors
    assert "torch" in answer.packages
    assert not answer.packages & {"wandb", "tensorboard", "deepspeed", "optuna", "submitit", "sklearn", "kornia"}


def test_a_refusal_imports_no_torch_and_writes_nothing(tree: ConfigTree, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    answer = Answer(tmp_path / "here", "-cp", str(tree.folders[0]), "data.global_batch_size=61", "trainer.devices=2")
    assert answer.status == 2
    assert "batch-within-data: data.global_batch_size=61" in answer.errors
    assert "batch-divides-over-devices" in answer.errors
    assert "Traceback" not in answer.errors
    assert not answer.packages & {"torch", "lightning", "timm", "torchvision", "wandb", "numpy"}
    assert answer.written == set()


def test_a_sweep_with_one_bad_run_starts_none(tree: ConfigTree, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    words = ["-m", "method=alpha,beta", "method.momentum.start=0.5,1.5"]
    answer = Answer(tmp_path / "here", "-cp", str(tree.folders[0]), *words)
    assert answer.status == 2
    assert "3 of 4 runs cannot work, and none was started" in answer.errors
    assert "[method=alpha method.momentum.start=0.5]" in answer.errors
    assert "[method=beta method.momentum.start=0.5]" not in answer.errors
    assert "momentum-within-unit" in answer.errors
    assert answer.written == set()


def test_showing_the_config_checks_its_words_and_imports_no_torch(tree: ConfigTree, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    shown = Answer(tmp_path / "here", "-cp", str(tree.folders[0]), "--cfg", "job", "--resolve", "method=beta")
    assert shown.status == 0
    assert "lr: 0.7" in shown.output
    assert "torch" not in shown.packages
    misspelt = Answer(tmp_path / "here", "-cp", str(tree.folders[0]), "--cfg", "job", "sed=3")
    assert misspelt.status == 2
    assert "did you mean: seed" in misspelt.errors


def test_every_mistake_of_a_command_is_shown(capsys: pytest.CaptureFixture[str], tree: ConfigTree) -> None:
    with pytest.raises(SystemExit) as end:
        check_command_line(["-cp", str(tree.folders[0]), "method=betta", "sed=3"])
    assert end.value.code == 2
    errors = capsys.readouterr().err
    assert "try: method=beta" in errors
    assert "did you mean: seed" in errors


@pytest.mark.parametrize("flags", [["-cd", "nowhere"], ["-cp", "nowhere"], ["-cn", "nothing"]])
def test_configs_that_are_absent_are_named(capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    with pytest.raises(SystemExit):
        check_command_line(flags)
    assert flags[1] in capsys.readouterr().err


def test_help_names_every_group_and_option_of_the_project() -> None:
    text = help_text()
    for folder in (path for path in CONF.iterdir() if path.is_dir() and path.name not in OF_SCRIPTS):
        assert folder.name in {group.split("/")[0] for group in GROUPS}, (
            f"say in spt/config/help.py what {folder.name} is"
        )
        for option in folder.glob("*.yaml"):
            assert f" {option.stem}" in text


def test_other_errors_of_a_run_reach_the_log_with_their_traceback(
    tree: ConfigTree, caplog: pytest.LogCaptureFixture
) -> None:
    with open_composer(tree) as composer:
        composer.compose([], job=0)
    with pytest.raises(SystemExit) as end, plain_errors():
        raise ZeroDivisionError("nothing to divide by")
    assert end.value.code == 1
    assert "Traceback" in caplog.text
    assert caplog.text.count("ZeroDivisionError: nothing to divide by") == 1


def test_a_config_error_of_a_run_is_shown_without_a_traceback(tree: ConfigTree, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import hydra\nfrom spt.config.command_line import check_command_line, plain_errors\n"
        "from spt.config.errors import ConfigError\n"
        "check_command_line()\n"
        f"@hydra.main(version_base='1.3', config_path={str(tree.folders[0])!r}, config_name='config')\n"
        "@plain_errors()\ndef main(cfg):\n    raise ConfigError('no images in there')\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, str(script), "-cp", str(tree.folders[0])],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no images in there" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_config_error_is_a_value_error() -> None:
    assert issubclass(ConfigError, ValueError)
