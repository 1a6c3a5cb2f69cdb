"""What is said of checkpoints, whole and broken."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from spt.checkpoint.folder import MARKER, point
from spt.checkpoint.inspection import inspect
from spt.config.errors import CheckpointError
from spt.export.evaluated import Evaluated
from spt.export.export import export_backbone
from tests.export.runs import Left, leave_run

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "inspect_checkpoint.py"


def row(lines: list[str], part: str) -> list[str]:
    """The cells of one row of the table."""
    (line,) = [line for line in lines if line.startswith(f"{part} ")]
    return line[len(part) :].split()


def numbers(run: Left, network: str) -> str:
    module = run.method.networks.get_submodule(network)
    return f"{sum(tensor.numel() for tensor in module.state_dict().values()):,}"


@pytest.mark.parametrize("layout", ["file", "folder"])
def test_a_checkpoint_tells_its_run_and_the_size_of_every_part(tmp_path: Path, layout: str) -> None:
    run = leave_run(tmp_path, layout=layout)
    findings = inspect(run.checkpoint)
    assert findings.is_complete
    text = "\n".join(findings.lines)
    for words in (
        "method dino, backbone vit_micro, data fake", "step 6 of 9, epoch 2", "2 processes, strategy single",
        "torch 2.14.0", "val/knn_top1 0.75", "a folder with" if layout == "folder" else "one file",
    ):  # fmt: skip
        assert words in text, words
    assert row(findings.lines, "student backbone")[1] == numbers(run, "student.backbone")
    assert row(findings.lines, "teacher backbone (evaluated)")[1] == numbers(run, "teacher.backbone")
    assert row(findings.lines, "student head")[1] == numbers(run, "student.head")
    assert row(findings.lines, "center")[1] == "10"


@pytest.mark.parametrize("layout", ["file", "folder"])
def test_what_is_damaged_or_unfinished_is_not_complete(tmp_path: Path, layout: str) -> None:
    run = leave_run(tmp_path, layout=layout)
    data = run.checkpoint if layout == "file" else next(run.checkpoint.glob("__*"))
    whole = data.read_bytes()
    data.write_bytes(whole[: len(whole) // 2])
    assert not inspect(run.checkpoint).is_complete
    data.write_bytes(whole)
    assert inspect(run.checkpoint).is_complete
    if layout == "folder":
        (run.checkpoint / MARKER).unlink()
        findings = inspect(run.checkpoint)
        assert not findings.is_complete
        assert f"it has no {MARKER}" in "\n".join(findings.lines)


def test_a_run_folder_lists_its_checkpoints(tmp_path: Path) -> None:
    run = leave_run(tmp_path)
    point(run.checkpoint)
    (run.checkpoint.parent / "step00000007.ckpt.tmp").write_bytes(b"half")
    findings = inspect(tmp_path)
    assert findings.is_complete
    text = "\n".join(findings.lines)
    assert "step00000006.ckpt" in text
    assert "complete, last.ckpt" in text
    assert "step00000007.ckpt.tmp" in text
    assert "NOT COMPLETE" in text
    assert "step 6 of 9" in text


def test_exports_and_files_of_others_are_told_apart(tmp_path: Path) -> None:
    run = leave_run(tmp_path / "run")
    evaluated = Evaluated(run.folder, checkpoint="last", packages=())
    file, _ = export_backbone(evaluated, format="safetensors", output=tmp_path / "a", verify=False)
    findings = inspect(file)
    assert any(line.split() == ["network", "teacher"] for line in findings.lines)
    assert row(findings.lines, "all")[1] == numbers(run, "teacher.backbone")
    program, _ = export_backbone(evaluated, format="torch_export", output=tmp_path / "b", verify=False)
    assert "a program for torch.export.load" in "\n".join(inspect(program).lines)
    torch.save({"teacher": {"backbone.norm.weight": torch.ones(3, 5)}, "epoch": 3}, tmp_path / "dino.pth")
    lines = inspect(tmp_path / "dino.pth").lines
    assert row(lines, "teacher")[:2] == ["1", "15"]
    assert "besides: epoch (int)" in lines


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save({"a": Evil()}, tmp_path / "evil.pth")
    findings = inspect(tmp_path / "evil.pth")
    assert not findings.is_complete
    assert "would run code" in "\n".join(findings.lines)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(CheckpointError, match="does not exist"):
        inspect(tmp_path / "nothing")


def test_the_script_ends_with_one_for_what_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = leave_run(tmp_path)
    for expected in (0, 1):
        monkeypatch.setattr(sys, "argv", ["inspect_checkpoint.py", str(run.checkpoint)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        assert ended.value.code == expected
        run.checkpoint.write_bytes(run.checkpoint.read_bytes()[:1000])
    assert "step 6 of 9" in capsys.readouterr().out


def test_a_folder_of_deepspeed_is_complete_and_says_what_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "step00000006.ckpt"
    (path / "checkpoint").mkdir(parents=True)
    (path / "checkpoint" / "zero_pp_rank_0_mp_rank_00_optim_states.pt").touch()
    (path / MARKER).write_text("{}")
    findings = inspect(path)
    assert findings.is_complete
    assert "zero_to_fp32.py" in "\n".join(findings.lines)


def test_a_reader_that_has_had_enough_ends_the_script_without_a_traceback(tmp_path: Path) -> None:
    run = leave_run(tmp_path)
    command = f"{sys.executable} {SCRIPT} {run.checkpoint} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""
