"""Jobs that run at a time have devices of their own."""

from __future__ import annotations

from itertools import combinations

import pytest

from spt.sweep import slots
from spt.sweep.slots import divide


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven cores, and five GPUs of which another program has one."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,0,3,GPU-uuid")
    monkeypatch.setattr(slots, "count_gpus", lambda: 4)
    monkeypatch.setattr(slots.os, "sched_getaffinity", lambda process: {0, 1, 2, 3, 5, 8, 9}, raising=False)
    monkeypatch.setattr(slots.sys, "platform", "linux")


def test_one_job_at_a_time_has_everything() -> None:
    assert divide(1) == [((), ())]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("parallel", [2, 3, 4])
def test_no_device_is_in_two_slots(parallel: int) -> None:
    divided = divide(parallel)
    assert len(divided) == parallel
    for one, other in combinations(divided, 2):
        assert not {*one.gpus} & {*other.gpus}
        assert not {*one.cores} & {*other.cores}
    assert {len(slot.gpus) for slot in divided} == {4 // parallel}
    assert {len(slot.cores) for slot in divided} == {7 // parallel}


@pytest.mark.usefixtures("machine")
def test_gpus_are_called_what_the_driver_calls_them() -> None:
    assert [slot.gpus for slot in divide(2)] == [("4", "0"), ("3", "GPU-uuid")]


@pytest.mark.usefixtures("machine")
def test_more_jobs_than_cores_share_them() -> None:
    assert {len(slot.cores) for slot in divide(9)} == {1}
