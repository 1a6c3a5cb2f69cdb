"""Compiled training is the same training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lightning import Callback, LightningModule, Trainer
from timm.layers import DropPath
from torch import nn

from spt.backbones.drop_path import TensorDropPath, replace_drop_path
from spt.callbacks.compilation import Compilation
from spt.config.errors import ConfigError
from spt.run import Run
from tests.runs import METHODS, Losses, build, fit, state

# graphs as the compiler finds them, without code in C++, which takes it a minute; without random numbers, which
# compiled code draws in another order
EAGER = ("compile.backend=eager", "backbone.drop_path=0", "backbone.depth=2", "trainer.max_epochs=1")


def compiled(method: str, folder: Path, scope: str, *words: str) -> tuple[Run, Losses]:
    losses = Losses()
    known = [word for word in EAGER if scope != "off" or not word.startswith("compile")]
    run = build(method, folder, f"compile={scope}", *known, "optimizer.lr=0.01", "probes=none", *words)
    return fit(run, losses), losses


@pytest.mark.parametrize("scope", ["blocks", "step"])
@pytest.mark.parametrize("method", METHODS)
def test_losses_and_weights_are_those_without_it(method: str, scope: str, tmp_path: Path) -> None:
    """Warming up leaves no trace: no gradient, no statistic of BatchNorm, no center, no random number."""
    (plain, losses), (other, same) = (
        compiled(method, tmp_path / name, name) for name in ("off", scope)
    )  # fmt: skip
    assert same.values == pytest.approx(losses.values, rel=1e-6)
    before, after = state(plain), state(other)
    assert before.keys() == after.keys()
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, rtol=1e-5, atol=1e-6, msg=name)


class Counts(Callback):
    """Keeps the metric of every step; gives the first block a number format of its own before the third."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        if trainer.global_step == 2:
            block = pl_module.method.networks.student.backbone.network.blocks[0]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                block(torch.zeros(2, 3, 16))

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self.values.append(pl_module.step_metrics["system/recompilations"])


def test_both_resolutions_are_compiled_before_the_first_step_and_what_comes_later_is_counted(tmp_path: Path) -> None:
    """Global and local views in six steps; before the third, one of them in a number format that is new."""
    counts = Counts()
    torch._dynamo.reset()
    words = ("compile=blocks", "compile.backend=eager", "probes=none", "optimizer.lr=0.01")
    fit(build("dino", tmp_path, *words), counts)
    assert counts.values[:2] == [0, 0]
    assert counts.values[2] > 0
    assert counts.values[3:] == [counts.values[2]] * 3


def test_evaluation_runs_the_code_as_it_is_written_and_nothing_is_left_behind(tmp_path: Path) -> None:
    run, _ = compiled("simclr", tmp_path, "blocks")
    assert not any("forward" in vars(module) or "step" in vars(module) for module in run.module.method.modules())
    run = build("simclr", tmp_path / "other", "compile=blocks", *EAGER)
    seen: list[bool] = []

    class Watch(Callback):
        def on_validation_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
            pl_module.method.networks.student.backbone.network.blocks[0].mlp.fc1.register_forward_hook(
                lambda *_: seen.append(torch.compiler.is_compiling())
            )

    fit(run, Watch())
    assert seen
    assert not any(seen)


def test_stochastic_depth_in_a_tensor_has_timms_distribution() -> None:
    network = nn.Sequential(nn.Linear(3, 3), DropPath(0.3), nn.Sequential(DropPath(0.0), DropPath(0.6, False)))
    names = list(network.state_dict())
    replace_drop_path(network)
    assert [type(network[1]), type(network[2][1])] == [TensorDropPath] * 2
    assert list(network.state_dict()) == names
    torch.manual_seed(0)
    rows = torch.ones(20000, 2, 3)
    for path, rate, kept_value in ((network[1], 0.3, 1 / 0.7), (network[2][0], 0.0, 1.0), (network[2][1], 0.6, 1.0)):
        out = path.train()(rows)
        assert torch.equal(out, out[:, :1, :1].expand_as(out))  # whole rows
        assert out.max().item() == pytest.approx(kept_value)
        assert len(out.unique()) == (2 if rate else 1)
        assert (out[:, 0, 0] == 0).float().mean().item() == pytest.approx(rate, abs=0.01)
        assert torch.equal(path.eval()(rows), rows)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scope": "all"}, "compile.scope=all"),
        ({"backend": "nvcc"}, "compile.backend=nvcc .*=.*inductor"),
        ({"mode": "reduce-overhead"}, "compile.mode=reduce-overhead .*compile.mode=default"),
    ],
)
def test_words_that_mean_nothing_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Compilation(**{"scope": "blocks", "backend": "inductor", "mode": "default", **changes})


@pytest.mark.slow
@pytest.mark.parametrize(("method", "scope"), [("dino", "blocks"), ("ijepa", "step")])
def test_inductors_code_gives_the_losses_of_the_code_as_it_is_written(method: str, scope: str, tmp_path: Path) -> None:
    (_, losses), (_, same) = (
        compiled(method, tmp_path / name, name, *(["compile.backend=inductor"] if name != "off" else []))
        for name in ("off", scope)
    )
    assert same.values == pytest.approx(losses.values, rel=1e-4)
