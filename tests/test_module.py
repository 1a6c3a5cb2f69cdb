"""One clock and one order: what happens in an optimizer step, under accumulation too."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor

import spt.optim.recipe
from spt.data.module import ImageData
from spt.optim.clipping import clip_gradients
from spt.run import Run
from spt.types import Masks, Progress, Sample
from tests.runs import BATCH_SIZE, EPOCHS, METHODS, STEPS_PER_EPOCH, Saver, build, compose, fit, state

NO_PROBES = "probes=none"


class Recorder(Callback):
    """(event, optimizer step) in the order in which things happen."""

    def __init__(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[str, int]] = []
        self.module = run.module
        method, recipe = run.module.method, run.module.recipe
        method.networks.student.register_forward_pre_hook(lambda *_: self._note("student"))
        method.networks.teacher.register_forward_pre_hook(lambda *_: self._note("teacher"))
        drop, finish = method.drop_gradients, method.finish_step

        def schedule(progress: Progress) -> float:
            self._note("schedules", progress)
            return recipe.lr_schedule(progress)

        def clip(parameters: object, **how: object) -> Tensor:
            self._note("clip")
            return clip_gradients(parameters, **how)  # type: ignore[arg-type]

        def noted_drop(progress: Progress) -> None:
            self._note("drop", progress)
            drop(progress)

        def noted_finish(progress: Progress) -> None:
            self._note("finish", progress)
            finish(progress)

        run.module.recipe = dataclasses.replace(recipe, lr_schedule=schedule)
        monkeypatch.setattr(spt.optim.recipe, "clip_gradients", clip)
        monkeypatch.setattr(method, "drop_gradients", noted_drop)
        monkeypatch.setattr(method, "finish_step", noted_finish)

    def _note(self, event: str, progress: Progress | None = None) -> None:
        self.events.append((event, (progress or self.module.progress).step))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.optimizers[0].register_step_post_hook(lambda *_: self._note("optimizer"))

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note("backward")

    def on_train_batch_end(self, *_: object) -> None:
        self._note("end")


@pytest.mark.parametrize("accumulation", [1, 2, 3])
def test_a_step_happens_in_one_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accumulation: int) -> None:
    """Traps 1, 2, 3, 4 and 6: the teacher moves once per optimizer step, after it, with k; only whole groups step."""
    words = ("data.global_batch_size=6", f"trainer.accumulate_grad_batches={accumulation}", "trainer.max_epochs=1")
    run = build("dino", tmp_path, *words, NO_PROBES)
    recorder = Recorder(run, monkeypatch)
    fit(run, recorder)
    expected = []
    for step in range(26 // 6):
        for micro_batch in range(accumulation):
            expected += [(event, step) for event in ("schedules", "teacher", "student", "backward")]
            if micro_batch == accumulation - 1:
                expected += [(event, step) for event in ("clip", "drop", "optimizer", "finish")]
                expected += [("end", step + 1)]
            else:
                expected += [("end", step)]
    assert recorder.events == expected


class Weights(Callback):
    """The method's state before the first step and after every one."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.states = [state(run)]

    def on_train_batch_end(self, *_: object) -> None:
        self.states.append(state(self.run))


@pytest.mark.parametrize("method", [name for name in METHODS if name != "simclr"])
def test_the_kth_update_of_the_teacher_uses_momentum_k_and_the_new_student(tmp_path: Path, method: str) -> None:
    """Traps 1, 3 and 7: the first update uses the first value of the schedule, and every step another one."""
    run = build(method, tmp_path, "method.momentum.start=0.5", NO_PROBES)
    weights, momentum = Weights(run), run.module.method.networks.momentum
    assert momentum is not None
    fit(run, weights)
    names = [name for name, _ in run.module.method.networks.student.named_parameters()]
    for step in range(6):
        before, after = weights.states[step], weights.states[step + 1]
        share = momentum(Progress(step, 6, 3))
        assert step > 0 or share == 0.5
        for name in names:
            student, teacher = after[f"networks.student.{name}"], before[f"networks.teacher.{name}"]
            expected = share * teacher + (1 - share) * student
            assert torch.allclose(after[f"networks.teacher.{name}"], expected, atol=1e-6), (step, name)


def test_two_micro_batches_equal_one_of_twice_the_size(tmp_path: Path) -> None:
    """Traps 4 and 5: student, teacher and center; a network without BatchNorm and drop-path."""
    words = ("backbone.drop_path=0", "optimizer=sgd", "optimizer.lr=0.5", "method.momentum.start=0.7", NO_PROBES)
    states = []
    for accumulation in (1, 2):
        folder = tmp_path / str(accumulation)
        run = build("dino", folder, *words, f"trainer.accumulate_grad_batches={accumulation}", "trainer.max_epochs=1")
        states += [state(run), state(fit(run))]
    start, whole, _, halves = states
    moved = [name for name in start if not torch.allclose(start[name], whole[name], atol=1e-4)]
    assert {name.split(".")[1] for name in moved if "networks" in name} == {"student", "teacher"}
    assert "center.center" in moved
    for name, value in whole.items():
        assert torch.allclose(value, halves[name], atol=1e-6), name


@pytest.mark.parametrize(("devices", "accumulation"), [(1, 1), (1, 2), (4, 1), (2, 2)])
def test_the_learning_rate_follows_the_global_batch(tmp_path: Path, devices: int, accumulation: int) -> None:
    """Trap 60: devices and micro-batches in any combination share one global batch, and scale by it."""
    words = (f"trainer.devices={devices}", f"trainer.accumulate_grad_batches={accumulation}", "strategy=ddp")
    assert compose("byol", tmp_path, *words).optimizer.lr == pytest.approx(0.45 * BATCH_SIZE / 256)


@pytest.mark.parametrize(("batch_size", "accumulation"), [(4, 1), (8, 1), (8, 2), (24, 3)])
def test_the_optimizer_is_given_the_scaled_learning_rate(tmp_path: Path, batch_size: int, accumulation: int) -> None:
    """Trap 60: the first step after no warm-up is at the peak."""
    rates: list[float] = []

    class Rates(Callback):
        def on_before_optimizer_step(self, trainer: Trainer, *_: object) -> None:
            rates.extend(group["lr"] for group in trainer.optimizers[0].param_groups)

    words = (f"data.global_batch_size={batch_size}", f"trainer.accumulate_grad_batches={accumulation}")
    run = build("byol", tmp_path, *words, "trainer.max_epochs=-1", "trainer.max_steps=1", NO_PROBES)
    fit(run, Rates())
    assert rates == pytest.approx([0.45 * batch_size / 256] * 2)


def test_prototypes_stay_in_the_frozen_epoch_and_move_after_it(tmp_path: Path) -> None:
    """Trap 25: bit-unchanged, and without a state in the optimizer."""
    has_state: list[bool] = []
    name = "networks.student.head.last_layer.parametrizations.weight.original1"

    class States(Callback):
        def on_train_batch_end(self, trainer: Trainer, *_: object) -> None:
            has_state.append(run.module.method.get_parameter(name) in trainer.optimizers[0].state)

    run = build("dino", tmp_path, "optimizer.lr=0.01", NO_PROBES)
    weights = Weights(run)
    fit(run, weights, States())
    prototypes = [states[name] for states in weights.states]
    assert all(torch.equal(prototypes[step], prototypes[0]) for step in range(4))
    assert not torch.equal(prototypes[4], prototypes[0])
    assert has_state == [False] * 3 + [True] * 3


def test_the_teacher_stays_where_a_float16_step_is_left_out(tmp_path: Path) -> None:
    """Trap 62: gradients that overflow move neither student nor teacher; the step after moves both."""
    run = build("byol", tmp_path, "trainer.max_epochs=1", "method.momentum.start=0.5", "optimizer.lr=1.0", NO_PROBES)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100, backoff_factor=2.0**-100)
    run.trainer.strategy.precision_plugin = MixedPrecision("16-mixed", "cpu", scaler=scaler)
    weights = Weights(run)
    fit(run, weights)
    start, skipped, taken = weights.states[:3]
    parameters = [name for name, _ in run.module.method.named_parameters() if name.startswith("networks")]
    assert all(torch.equal(start[name], skipped[name]) for name in parameters)
    moved = {name.split(".")[1] for name in parameters if not torch.equal(skipped[name], taken[name])}
    assert moved == {"student", "teacher"}


def test_the_center_forgets_a_float16_step_that_is_left_out(tmp_path: Path) -> None:
    run = build("dino", tmp_path, "trainer.max_epochs=1", NO_PROBES)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100, backoff_factor=2.0**-100)
    run.trainer.strategy.precision_plugin = MixedPrecision("16-mixed", "cpu", scaler=scaler)
    center, counts, moved = run.module.method.center, [], []

    class Look(Callback):
        def on_train_batch_end(self, *_: object) -> None:
            counts.append(float(center.pending_count))
            moved.append(bool(center.center.any()))

    fit(run, Look())
    assert counts == [0.0] * STEPS_PER_EPOCH
    assert moved == [False] + [True] * (STEPS_PER_EPOCH - 1)


@pytest.mark.parametrize("fused", ["true", "false"])
def test_gradients_are_measured_and_clipped_without_the_loss_scale(tmp_path: Path, fused: str) -> None:
    """Trap 62: fused optimizers take the scale off in their own step, after clipping."""
    norms: dict[float, list[float]] = {1.0: [], 4.0: []}
    for scale, found in norms.items():
        words = ("optimizer.rule=adamw", f"optimizer.rules.adamw.fused={fused}", "trainer.max_epochs=1", NO_PROBES)
        run = build("dino", tmp_path / f"{scale}", *words)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000)
        run.trainer.strategy.precision_plugin = MixedPrecision("16-mixed", "cpu", scaler=scaler)

        class Norms(Callback):
            def on_train_batch_end(self, *_: object, found: list[float] = found) -> None:
                found.append(float(run.module.step_metrics["train/grad_norm"]))  # noqa: B023

        fit(run, Norms())
    assert len(norms[1.0]) > 1
    assert norms[4.0] == pytest.approx(norms[1.0], rel=0.05)


def test_a_checkpoint_within_an_epoch_holds_the_teacher_after_the_update(tmp_path: Path) -> None:
    file = tmp_path / "step1.ckpt"
    run = build("byol", tmp_path / "run", "method.momentum.start=0.5", "optimizer.lr=1.0", NO_PROBES)
    start = state(run)
    fit(run, Saver(1, file))
    saved = torch.load(file, weights_only=False)["state_dict"]
    name = "networks.teacher.backbone.network.patch_embed.proj.weight"
    student = saved["method." + name.replace("teacher", "student")]
    assert not torch.equal(student, start[name])
    assert torch.allclose(saved[f"method.{name}"], (start[name] + student) / 2, atol=1e-7)


def test_views_and_masks_are_kept_out_of_the_weights(tmp_path: Path) -> None:
    run = build("ijepa", tmp_path, NO_PROBES)
    assert all(name.startswith("method.") for name in run.module.state_dict())


def test_masks_are_drawn_once_a_micro_batch_before_it_leaves_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = build("ijepa", tmp_path, NO_PROBES, "trainer.accumulate_grad_batches=2")
    masks, transfer, events = run.module.masks, ImageData.transfer_batch_to_device, []
    assert masks is not None

    def draw(sample: Sample, progress: Progress) -> Masks:
        events.append(f"masks of step {progress.step}")
        return masks(sample, progress)

    def leave(data: ImageData, batch: Sample, *rest: object) -> Sample:
        if data.trainer.training:
            events.append("leaves")
        return transfer(data, batch, *rest)

    run.module.masks = draw
    monkeypatch.setattr(ImageData, "transfer_batch_to_device", leave)
    fit(run)
    steps = [step for step in range(STEPS_PER_EPOCH * EPOCHS) for _ in range(2)]
    assert events == [event for step in steps for event in (f"masks of step {step}", "leaves")]


def test_what_a_network_draws_depends_on_seed_and_step_alone(tmp_path: Path) -> None:
    """Drop-path of a step is the same whatever was drawn before it, and another one in the next step."""

    class Draws(Callback):
        def __init__(self, wasted: int) -> None:
            self.wasted = wasted
            self.values: list[tuple[float, ...]] = []

        def on_train_batch_start(self, *_: object) -> None:
            self.values.append(tuple(torch.rand(3).tolist()))
            torch.rand(self.wasted)

    first, again, other = Draws(0), Draws(5), Draws(0)
    for draws, seed in ((first, 1), (again, 1), (other, 2)):
        # callbacks come before the module in this hook: what they see is what the step before left
        fit(build("simclr", tmp_path / f"{seed}-{draws.wasted}", f"seed={seed}", NO_PROBES), draws)
    assert len(set(first.values)) == 6
    assert first.values == again.values
    assert not set(first.values) & set(other.values)
