"""The file format against its own library, and how much of a network is held while it is written."""

from __future__ import annotations

import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

from spt.checkpoint.reading import Tensors
from spt.config.errors import CheckpointError
from spt.export.safetensors_file import write_safetensors

TYPES = (torch.float32, torch.bfloat16, torch.int64, torch.float16, torch.uint8, torch.bool, torch.float64)


def listed(tensors: dict[str, Tensor]) -> dict[str, Tensors]:
    return {name: Tensors(tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def test_every_type_and_shape_reads_back_with_the_formats_library(tmp_path: Path) -> None:
    tensors = {f"t{index}": torch.arange(6).reshape(2, 3).to(dtype) for index, dtype in enumerate(TYPES)}
    tensors |= {"scalar": torch.tensor(7), "empty": torch.empty(0, 4), "transposed": torch.randn(3, 5).T}
    file = tmp_path / "deep" / "x.safetensors"
    write_safetensors(file, listed(tensors), tensors.__getitem__, metadata={"format": "pt", "a": "b"})
    read = safetensors.torch.load_file(file)
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor), name
    with safetensors.safe_open(file, framework="pt") as content:
        assert content.metadata() == {"format": "pt", "a": "b"}
    assert [path.name for path in file.parent.iterdir()] == ["x.safetensors"]


def test_one_tensor_is_held_at_a_time(tmp_path: Path) -> None:
    shapes = {f"t{index}": Tensors(torch.Size([3, index + 1]), torch.float32) for index in range(9)}
    alive: list[weakref.ref[Tensor]] = []
    most = 0

    def read(name: str) -> Tensor:
        nonlocal most
        tensor = torch.ones(shapes[name].shape)
        alive.append(weakref.ref(tensor))
        most = max(most, sum(reference() is not None for reference in alive))
        return tensor

    write_safetensors(tmp_path / "x.safetensors", shapes, read, metadata={})
    assert len(alive) == 9
    assert most <= 2  # the next one is read before the name of the last one is given anew


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    one = {"a": torch.ones(2)}
    write_safetensors(file, listed(one), one.__getitem__, metadata={})
    before = file.read_bytes()

    def fail(name: str) -> Tensor:
        raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointError, match="could not be written: No space left on device"):
        write_safetensors(file, listed(one), fail, metadata={})
    assert file.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


MEASURE = """
import resource, sys
from pathlib import Path
from spt.export.evaluated import Evaluated
from spt.export.export import export_backbone
from tests.export.runs import leave_run

def export(folder):
    evaluated = Evaluated(Path(folder), checkpoint="last", packages=())
    export_backbone(evaluated, format="safetensors", output=None, verify=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB

small, large = sys.argv[1:]
before = export(small)  # everything is imported and has run once
print(export(large) - before)
"""


@pytest.mark.slow
def test_exporting_from_a_folder_takes_the_memory_of_a_few_tensors(tmp_path: Path) -> None:
    """290 MiB of networks in the folder, 145 MiB of them exported; the largest tensor has 4 MiB."""
    write = (
        "import sys; from pathlib import Path; from tests.export.runs import leave_run;"
        "leave_run(Path(sys.argv[1]), layout='folder');"
        "leave_run(Path(sys.argv[2]), layout='folder', backbone=('backbone=vit_micro', 'backbone.embed_dim=512',"
        " 'backbone.num_heads=8', 'backbone.depth=12'))"
    )
    folders = [str(tmp_path / "small"), str(tmp_path / "large")]
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", write, *folders], cwd=root, check=True)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *folders], cwd=root, check=True, capture_output=True, text=True
    )
    (file,) = (tmp_path / "large" / "export").glob("*.safetensors")
    assert file.stat().st_size > 140 * 2**20
    assert float(done.stdout) < 50
