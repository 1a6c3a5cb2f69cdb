"""Which jobs a sweep has, and what becomes of those that cannot work."""

from __future__ import annotations

import pytest

from spt.config.command_line import check_command_line
from spt.config.dry_run import planned_jobs
from spt.config.errors import ConfigError
from spt.config.sweep import own_words

GRID = ("-m", "method=ijepa,simclr", "backbone=vit_micro,resnet18", "data=fake", "sweep.parallel=2")


def test_refused_jobs_stop_the_sweep_and_say_how_to_skip_them() -> None:
    with pytest.raises(ConfigError, match="1 of 4 runs cannot work, and none was started") as error:
        planned_jobs(GRID)
    assert "[method=ijepa backbone=resnet18 data=fake]\ntokens-needed" in str(error.value)
    assert str(error.value).endswith("try: sweep.on_refused=skip, to run the other 3")


def test_refused_jobs_can_be_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*GRID, "sweep.on_refused=skip")
    jobs = planned_jobs(words)
    assert [job.refusal is None for job in jobs] == [True, False, True, True]
    assert jobs[1].words[:2] == ("method=ijepa", "backbone=resnet18")
    assert check_command_line(words)
    assert "1 of 4 runs cannot work, and are skipped.\n[method=ijepa backbone=resnet18" in capsys.readouterr().err


def test_a_sweep_of_which_nothing_is_left_is_refused() -> None:
    with pytest.raises(ConfigError, match="2 of 2 runs cannot work") as error:
        planned_jobs(("-m", "sweep.on_refused=skip", "seed=-1,-2"))
    assert "on_refused=skip, to run" not in str(error.value)


@pytest.mark.parametrize(
    ("word", "advice"),
    [("sweep.parallel=0", "at least one"), ("sweep.on_refused=ask", "sweep.on_refused=stop or"),
     ("sweep.parallel=1,2", "a sweep as a whole has one"), ("hydra.sweep.dir=a,b", "a sweep as a whole has one")],
)  # fmt: skip
def test_settings_of_the_sweep_are_checked(word: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        planned_jobs(("-m", "seed=1,2", "data=fake", word))


def test_settings_of_the_sweep_do_not_tell_jobs_apart() -> None:
    words = ["method=dino", "sweep.parallel=2", "hydra/launcher=basic", "~probes", "hydra.sweep.dir=x", "+method.x=1"]
    assert own_words(words) == ["method=dino", "~probes", "+method.x=1"]


@pytest.mark.parametrize(
    ("words", "refused"),
    [(("trainer.devices=2", "strategy=ddp"), False), (("trainer.devices=4", "strategy=ddp"), True),
     (("trainer.devices=[0]",), True), (("trainer.devices=1",), False)],
)  # fmt: skip
def test_a_job_may_have_its_share_of_the_gpus(
    words: tuple[str, ...], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("spt.config.sweep", "spt.config.gathering", "spt.config.machine"):
        monkeypatch.setattr(f"{name}.count_gpus", lambda: 4)
    planned_jobs.cache_clear()  # the machine is another one
    command = ("-m", "seed=1,2", "data=fake", "sweep.parallel=2", *words)
    if not refused:
        assert [job.refusal for job in planned_jobs(command)] == [None, None]
        return
    with pytest.raises(ConfigError, match=r"sweep\.parallel=2"):
        planned_jobs(command)
