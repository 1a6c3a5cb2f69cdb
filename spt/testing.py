"""The contract of a method as a test that anyone can call: `check_method(method, batch)`."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from spt.method import Method
from spt.types import Batch, Progress, StepOutput

FIRST_STEP = Progress(step=0, total_steps=100, steps_per_epoch=10)
LATER_STEP = Progress(step=57, total_steps=100, steps_per_epoch=10)


def check_method(method: Method, batch: Batch) -> None:
    """Asserts everything that spt relies on, and leaves the method as it was.

    Args:
        method: freshly built, in train mode.
        batch: at least two images [B, 3, S, S] a view, with all that the method needs.

    Raises:
        AssertionError: names the part of the contract that does not hold.
    """
    method = copy.deepcopy(method).train()
    _check_facts(method)
    output = _check_step(method, batch)
    _check_gradients(method, output)
    _check_embeddings(method, batch, output)
    _check_evaluated(method, batch.global_views[0])
    _check_finish_step(method, batch)
    _check_state(method, batch)


def _check_facts(method: Method) -> None:
    assert method.has_teacher == method.networks.has_teacher, "has_teacher does not tell whether there is a teacher"
    if method.has_teacher:
        student, teacher = method.networks.student.state_dict(), method.networks.teacher.state_dict()
        assert student.keys() == teacher.keys(), "teacher and student differ in their parameters' names"
        assert all(torch.equal(student[key], teacher[key]) for key in student), (
            "the teacher does not start as the student"
        )


def _check_step(method: Method, batch: Batch) -> StepOutput:
    before = {name: parameter.detach().clone() for name, parameter in method.named_parameters()}
    output = method.step(batch, LATER_STEP)
    assert output.loss.ndim == 0, f"the loss has shape {tuple(output.loss.shape)}; it must be a scalar"
    assert output.loss.dtype == torch.float32, f"the loss is {output.loss.dtype}; it must be computed in float32"
    assert bool(torch.isfinite(output.loss)), "the loss of the first step is not finite"
    for name, parameter in method.named_parameters():
        assert torch.equal(before[name], parameter), f"step changed {name}; only the optimizer and finish_step may"
    for name, value in output.metrics.items():
        assert name.count("/") == 1, f"the metric {name!r} is not named stage/name"
        assert not isinstance(value, Tensor) or not value.requires_grad, f"the metric {name!r} carries a gradient"
    return output


def _check_gradients(method: Method, output: StepOutput) -> None:
    output.loss.backward()
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, f"the loss gives {name} no gradient: freeze it or use it"
        else:
            assert parameter.grad is None, f"the frozen {name} has a gradient"
    if method.has_teacher:
        trainable = [name for name, p in method.networks.teacher.named_parameters() if p.requires_grad]
        assert not trainable, f"the teacher's {trainable[0]} would be trained"
    method.drop_gradients(FIRST_STEP)
    dropped = [n for n, p in method.named_parameters() if p.requires_grad and p.grad is None]
    assert method.drops_gradients or not dropped, f"drop_gradients drops {dropped[0]}, but drops_gradients is False"
    method.zero_grad()


def _check_embeddings(method: Method, batch: Batch, output: StepOutput) -> None:
    images = batch.global_views[0]
    assert output.embeddings.ndim == 2, "step's embeddings are not [B, D]"
    assert len(output.embeddings) == len(images), "step's embeddings are not one row an image"
    assert not output.embeddings.requires_grad, "step's embeddings carry a gradient; a probe would train the network"
    method.eval()
    with torch.no_grad():
        embeddings = method.embed(images)
        assert embeddings.shape == output.embeddings.shape, "embed and step give embeddings of different shapes"
        reordered = method.embed(images.flip(0)).flip(0)
    assert torch.allclose(embeddings, reordered, atol=1e-4), "an image's embedding depends on its place in the batch"
    method.train()


@torch.no_grad()
def _check_evaluated(method: Method, images: Tensor) -> None:
    """`embed` follows every network but the one that `evaluates` names."""
    method = copy.deepcopy(method).eval()
    expected = method.embed(images)
    own = {id(parameter) for parameter in method.evaluated.parameters()}
    for parameter in method.parameters():
        if id(parameter) not in own:
            parameter.add_(torch.randn_like(parameter))
    assert torch.equal(method.embed(images), expected), f"embed asks more than the {method.evaluates}"
    for parameter in method.evaluated.parameters():
        parameter.add_(torch.randn_like(parameter))
    assert not torch.equal(method.embed(images), expected), f"embed does not ask the {method.evaluates}"


def _check_finish_step(method: Method, batch: Batch) -> None:
    for parameter in method.networks.student.parameters():
        if parameter.requires_grad:
            parameter.data.add_(0.01)
    old = [parameter.clone() for parameter in method.networks.teacher.parameters()]
    student = [parameter.clone() for parameter in method.networks.student.parameters()]
    method.step(batch, FIRST_STEP)
    method.finish_step(FIRST_STEP)
    new = list(method.networks.teacher.parameters())
    moved = any(not torch.equal(before, after) for before, after in zip(old, new, strict=True))
    assert moved == method.has_teacher, "finish_step does not move the teacher" if method.has_teacher else "it moved"
    for before, after in zip(student, method.networks.student.parameters(), strict=True):
        assert torch.equal(before, after), "finish_step moves the student"


def _check_state(method: Method, batch: Batch) -> None:
    """A method that was copied through its state dict goes on exactly as the original."""
    other = copy.deepcopy(method)
    for tensor in [*other.parameters(), *other.buffers()]:
        tensor.data.zero_()
    missing = other.load_state_dict(method.state_dict(), strict=True)
    assert not missing.missing_keys, f"the state dict lacks {missing.missing_keys}"
    fixed = {name for name, _ in method.named_buffers()} - set(method.state_dict())
    for name in fixed:  # rebuilt by the constructor, never saved
        other.get_buffer(name).copy_(method.get_buffer(name))
    torch.manual_seed(0)
    expected = method.step(batch, LATER_STEP).loss
    torch.manual_seed(0)
    assert torch.equal(other.step(batch, LATER_STEP).loss, expected), "the state dict does not hold all state"
