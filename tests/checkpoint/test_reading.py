"""What is on disk is read whole, or the error says what is wrong with which file; nothing in it is run."""

from __future__ import annotations

import json
import pickle
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

import pytest
import torch
from torch import Tensor

from spt.checkpoint.folder import MARKER, clean, complete_checkpoints, name_of, newest, point
from spt.checkpoint.reading import Stored, open_checkpoint
from spt.checkpoint.writing import METADATA, REST, write_file, write_folder
from spt.config.errors import CheckpointError
from tests.runs import build, fit

WRITERS = (write_file, write_folder)


def content(seed: int = 0) -> dict[str, object]:
    """A small checkpoint with two weights and the state of one optimizer."""
    generator = torch.Generator().manual_seed(seed)
    weights = {
        "a.weight": torch.randn(7, 5, generator=generator),
        "a.count": torch.tensor(3),
        "b": torch.randn(6, generator=generator).bfloat16(),
    }
    entry = {"step": torch.tensor(4.0), "exp_avg": torch.randn(7, 5, generator=generator)}
    group = {"lr": 0.1, "betas": [0.9, 0.95], "params": ["a.weight"]}
    return {
        "state_dict": weights,
        "optimizer_states": [{"state": {"a.weight": entry}, "param_groups": [group], "defaults": {"lr": 0.1}}],
        "loops": {"fit_loop": {"epoch": 2}},
    }


@pytest.mark.parametrize("write", WRITERS)
def test_what_was_written_is_read_bit_for_bit(tmp_path: Path, write: Callable[..., None]) -> None:
    path = tmp_path / "c" / name_of(4)
    write(content(), path)
    stored, weights = open_checkpoint(path), content()["state_dict"]
    assert isinstance(weights, dict)
    assert stored.is_folder == (write is write_folder)
    assert {name: (info.shape, info.dtype) for name, info in stored.weights.items()} == {
        name: (tensor.shape, tensor.dtype) for name, tensor in weights.items()
    }
    read = stored.read_weights(weights)
    assert all(torch.equal(read[name], tensor) for name, tensor in weights.items())
    moment = stored.read(["optimizer.0.a.weight.exp_avg"])["optimizer.0.a.weight.exp_avg"]
    assert torch.equal(moment, content()["optimizer_states"][0]["state"]["a.weight"]["exp_avg"])  # type: ignore[index]
    assert stored.rest["loops"] == {"fit_loop": {"epoch": 2}}
    assert stored.rest["optimizer_states"][0]["state"]["a.weight"]["step"] == 4  # type: ignore[index]


@pytest.mark.parametrize("write", WRITERS)
def test_a_checkpoint_takes_the_place_of_one_of_the_same_step(tmp_path: Path, write: Callable[..., None]) -> None:
    path = tmp_path / name_of(4)
    for writer, seed in ((write_file, 1), (write_folder, 2), (write, 3)):
        writer(content(seed), path)
    assert torch.equal(Stored(path).read_weights(["b"])["b"], content(3)["state_dict"]["b"])  # type: ignore[index]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def flip(file: Path) -> None:
    """Changes one bit in the middle."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def flip_in_a_weight(file: Path) -> None:
    """Changes one bit of a tensor; torch pads what lies between them."""
    data = bytearray(file.read_bytes())
    weights = content()["state_dict"]
    data[data.index(weights["a.weight"].numpy().tobytes()) + 9] ^= 1  # type: ignore[index]
    file.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [truncate, flip_in_a_weight])
def test_a_damaged_file_is_named(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / name_of(4)
    write_file(content(), path)
    damage(path)
    with pytest.raises(CheckpointError, match=f"{path} is damaged"):
        open_checkpoint(path)


@pytest.mark.parametrize("damage", [truncate, flip])
@pytest.mark.parametrize("name", ["__0_0.distcp", REST, METADATA])
def test_a_damaged_file_of_a_folder_is_named(tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    path = tmp_path / name_of(4)
    write_folder(content(), path)
    damage(path / name)
    with pytest.raises(CheckpointError, match=f"{path / name} is damaged"):
        open_checkpoint(path)


@pytest.mark.parametrize("name", ["__0_0.distcp", REST, METADATA])
def test_a_shard_that_was_not_copied_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name_of(4)
    write_folder(content(), path)
    (path / name).unlink()
    with pytest.raises(CheckpointError, match=f"lacks {name}"):
        open_checkpoint(path)


def test_a_folder_without_its_marker_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / name_of(4)
    write_folder(content(), path)
    (path / MARKER).unlink()
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        open_checkpoint(path)
    assert newest(tmp_path) is None


def test_a_folder_of_deepspeeds_is_sent_to_deepspeeds_own_converter(tmp_path: Path) -> None:
    path = tmp_path / name_of(4)
    (path / "checkpoint").mkdir(parents=True)
    (path / "checkpoint" / "zero_pp_rank_0_mp_rank_00_optim_states.pt").touch()
    (path / MARKER).write_text('{"files": {}}')
    with pytest.raises(CheckpointError, match=r"zero_to_fp32\.py"):
        open_checkpoint(path)


@pytest.mark.parametrize("text", [b"", b"seed: 3\n", pickle.dumps({"a": 1})])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "wrong.ckpt").write_bytes(text)
    with pytest.raises(CheckpointError, match=r"wrong\.ckpt"):
        open_checkpoint(tmp_path / "wrong.ckpt")


class Harmful:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_code_in_a_file_is_refused_and_not_run(tmp_path: Path) -> None:
    path, trace = tmp_path / "harmful.ckpt", tmp_path / "trace"
    torch.save({"state_dict": {}, "callbacks": Harmful(trace)}, path)
    with pytest.raises(CheckpointError, match="more than plain data"):
        open_checkpoint(path)
    assert not trace.exists()


@pytest.mark.parametrize("name", [REST, METADATA])
def test_code_in_a_folder_is_refused_and_not_run(tmp_path: Path, name: str) -> None:
    """torch reads the list of tensors with pickle, which could name any function."""
    path, trace = tmp_path / name_of(4), tmp_path / "trace"
    write_folder(content(), path)
    if name == REST:
        torch.save({"loops": Harmful(trace)}, path / name)
    else:
        (path / name).write_bytes(pickle.dumps(Harmful(trace)))
    with pytest.raises(CheckpointError, match=r"plain data|cannot be read: it names"):
        open_checkpoint(path, verify=False)
    assert not trace.exists()


class ByName(pickle.Pickler):
    """Writes members of enumerations as Python 3.11.2 does."""

    def reducer_override(self, value: object) -> object:
        if isinstance(value, Enum):
            return getattr, (type(value), value.name)
        return NotImplemented


def test_a_list_of_tensors_is_read_whichever_python_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / name_of(4)
    write_folder(content(), path)
    before = open_checkpoint(path, verify=False).tensors
    metadata = pickle.loads((path / METADATA).read_bytes())
    with (path / METADATA).open("wb") as file:
        ByName(file).dump(metadata)
    assert b"getattr" in (path / METADATA).read_bytes()
    assert open_checkpoint(path, verify=False).tensors == before


def test_a_checkpoint_of_a_run_is_plain_data(tmp_path: Path) -> None:
    run = fit(build("dino", tmp_path))
    stored = open_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    kinds = {type(leaf) for leaf in leaves(stored.rest)}
    assert kinds <= {Tensor, torch.Tensor, int, float, str, bool, type(None)}
    card = stored.rest["run"]
    assert isinstance(card, dict)
    assert (card["step"], card["world_size"], card["choices"]["method"]) == (6, 1, "dino")
    assert stored.weights.keys() == run.module.state_dict().keys()


def leaves(node: object) -> Iterator[object]:
    """Everything in nested dicts and lists, and nothing but dicts, lists and tuples may nest."""
    if type(node) in (dict, list, tuple):
        for child in node.values() if isinstance(node, dict) else node:  # type: ignore[attr-defined]
            yield from leaves(child)
    else:
        yield node


@contextmanager
def small_disk(num_bytes: int) -> Iterator[None]:
    """No file grows beyond that, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("write", WRITERS)
def test_a_disk_that_is_full_leaves_the_last_checkpoint_and_nothing_else(
    tmp_path: Path, write: Callable[..., None]
) -> None:
    write(content(), tmp_path / name_of(4))
    large = {**content(), "state_dict": {"a": torch.zeros(400, 400)}}
    with small_disk(100_000), pytest.raises(CheckpointError, match="could not be written: File too large") as error:
        write(large, tmp_path / name_of(5))
    assert "try: make room" in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == [name_of(4)]
    open_checkpoint(tmp_path / name_of(4))


def test_what_a_kill_left_is_removed_and_last_leads_to_the_newest(tmp_path: Path) -> None:
    write_file(content(), tmp_path / name_of(4))
    write_folder(content(), tmp_path / name_of(8))
    point(tmp_path / name_of(4))
    (tmp_path / f"{name_of(9)}.tmp").mkdir()
    (tmp_path / f"{name_of(7)}.tmp").touch()
    (tmp_path / name_of(10)).mkdir()
    (tmp_path / f"{name_of(4)}.old").touch()
    assert clean(tmp_path) == [f"{name_of(4)}.old", f"{name_of(7)}.tmp", f"{name_of(9)}.tmp", name_of(10)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.ckpt", name_of(4), name_of(8)]
    assert (tmp_path / "last.ckpt").resolve() == tmp_path / name_of(8)
    assert list(complete_checkpoints(tmp_path)) == [4, 8]
    assert clean(tmp_path) == []


def test_a_folder_moved_aside_before_its_successor_came_is_put_back(tmp_path: Path) -> None:
    write_folder(content(), tmp_path / name_of(4))
    (tmp_path / name_of(4)).rename(tmp_path / f"{name_of(4)}.old")
    clean(tmp_path)
    assert newest(tmp_path) == tmp_path / name_of(4)
    assert json.loads((tmp_path / name_of(4) / MARKER).read_text())["files"].keys() == {"__0_0.distcp", METADATA, REST}
