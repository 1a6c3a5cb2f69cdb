"""The notebooks hold no outputs, and run from the first cell to the last."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SEVERAL_RUNS = {"compare_runs"}  # half a minute; the others train one small run each


def named(path: Path) -> str:
    return path.stem


def test_there_are_notebooks() -> None:
    assert {path.stem for path in NOTEBOOKS} >= {"quickstart", "add_a_method", "compare_runs"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_a_notebook_is_stripped_of_its_outputs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.isascii()
    for cell in nbformat.reads(text, 4).cells:
        assert not cell.get("outputs"), cell.source
        assert cell.get("execution_count") is None, cell.source


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if path.stem in SEVERAL_RUNS else []) for path in NOTEBOOKS],
    ids=named,
)
def test_a_notebook_runs_from_the_first_cell_to_the_last(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On digits, for two passes; what it prints and draws is there, and nothing but tqdm complains."""
    monkeypatch.setenv("SPT_NOTEBOOK_FAST", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, 4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()  # raises what a cell raises
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    complaints = [output.text for output in outputs if output.output_type == "stream" and output.name == "stderr"]
    assert [text for text in complaints if "IProgress" not in text] == []
    if path.stem != "add_a_method":
        assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert any((tmp_path / "runs").glob("**/checkpoints/last.ckpt"))
