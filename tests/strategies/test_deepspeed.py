"""DeepSpeed trains as one process does; without the package there is an answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from spt.config.composer import open_composer
from spt.config.errors import ConfigError
from spt.config.tree import project_tree, read_yaml
from spt.run import prepare
from spt.strategies.deepspeed import DeepSpeedStage3Strategy
from tests.launch.commands import ROOT, environment
from tests.runs import compose, fit

# of both sides of the comparison: small steps, all clipped, whose length follows the schedule; strong contrasts, for
# BatchNorm makes much of rounding where images hardly differ
WORDS = (
    "optimizer=sgd", "optimizer.lr=0.03", "optimizer.clip_norm=0.3", "method.temperature=0.5",
    "data.global_batch_size=16", "data.num_images=50", "views.mean=[0.5,0.5,0.5]", "views.std=[0.03,0.04,0.05]",
)  # fmt: skip


def options() -> dict[str, object]:
    """What conf/ gives the strategy."""
    file = project_tree().file("strategy", "deepspeed_stage_3")
    assert file is not None
    return {key: value for key, value in read_yaml(file).items() if key != "_target_"}


def test_without_the_package_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spt.strategies.deepspeed.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[deepspeed\]'"):
        DeepSpeedStage3Strategy(**options())  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["byol", "dino", "ijepa"])
def test_teachers_are_sent_to_fsdp2(method: str) -> None:
    words = [f"method={method}", "strategy=deepspeed_stage_3", "trainer.devices=2"]
    with open_composer(project_tree()) as composer, pytest.raises(ConfigError) as error:
        composer.compose(composer.read(words, multirun=False), job=0)
    assert "deepspeed-without-teacher: " in str(error.value)
    assert "try: strategy=fsdp2" in str(error.value)


class Left(NamedTuple):
    """What the two processes have left.

    Attributes:
        metrics: the latest.
        rates: learning rate of the engine's optimizer after every step.
        shapes: of the parameters that a process sees.
        steps: that the resumed run came to.
        whole, resumed: weights of both runs, exported to one file.
    """

    metrics: dict[str, float]
    rates: list[float]
    shapes: list[list[int]]
    steps: int
    whole: dict[str, Tensor]
    resumed: dict[str, Tensor]


def train(folder: Path, *words: str) -> Left:
    """Trains on two processes of their own: DeepSpeed changes torch for the whole process that imports it."""
    folder.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command += ["-m", "tests.strategies.deepspeed_on_cpu", str(folder), *WORDS, *words]
    own = environment(DS_ACCELERATOR="cpu", GLOO_SOCKET_IFNAME="lo")
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    weights = torch.load(folder / "weights.pt", weights_only=True)
    return Left(**json.loads((folder / "left.json").read_text()), **weights)


@pytest.mark.slow
def test_two_processes_train_and_resume_as_one_process_does(tmp_path: Path) -> None:
    single = fit(prepare(compose("simclr", tmp_path / "single", *WORDS)))
    left = train(tmp_path / "deepspeed")
    assert [0] in left.shapes  # divided: what a process sees of a weight outside a forward is empty
    weights = dict(single.module.named_parameters())
    for name, value in single.module.state_dict().items():
        rtol, atol = (0.0, 1e-6) if name in weights else (1e-4, 2e-5)
        torch.testing.assert_close(left.whole[name], value, rtol=rtol, atol=atol)
        assert torch.equal(left.resumed[name], left.whole[name])
    assert left.steps == single.trainer.global_step == 6
    for name in ("train/grad_norm", "train/lr", "val/knn_top1", "val/linear_top1"):
        assert left.metrics[name] == pytest.approx(single.metrics_file.latest[name], rel=1e-3)
    assert left.metrics["train/grad_norm"] > 0.3  # so clipping did something
    assert len(set(left.rates)) == 6
    assert left.rates[-1] == pytest.approx(single.metrics_file.latest["train/lr"])


@pytest.mark.slow
def test_bf16_mixed_keeps_weights_in_float32_and_resumes_exactly(tmp_path: Path) -> None:
    left = train(tmp_path / "deepspeed", "precision=bf16-mixed")
    assert {value.dtype for value in left.whole.values() if value.is_floating_point()} == {torch.float32}
    rounded = [torch.equal(value, value.bfloat16().float()) for name, value in left.whole.items() if value.ndim == 2]
    assert not any(rounded)
    for name, value in left.whole.items():
        assert torch.equal(left.resumed[name], value)
