"""A process of a run on several devices: python -m spt.launch.rank NOTES PARENT TASK. See `spt.launch.ranks`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from spt.launch.failures import CONFIG, PROCESS, STOPPING, VALUE, record_failure
from spt.launch.process import end_with_parent, listening
from spt.launch.task import perform
from spt.reporting.atomic import write_text
from spt.reporting.closing import finish

_GRACE = 5.0
"""Seconds in which a rank must end once another one has failed: what it waits for will not come."""


def main(notes: Path, parent: int, task: str) -> None:
    """Runs the config that the parent left, and leaves what came of it.

    Args:
        notes: the folder that parent and ranks share.
        parent: its process id.
        task: what to call with the config, see spt.launch.task.
    """
    end_with_parent(parent)
    write_text(notes / f"{PROCESS}-{os.environ['RANK']}", str(os.getpid()))
    with listening(partial(_end_soon, notes, [])):
        status = _run(notes, task)
    sys.stdout.flush()
    sys.stderr.flush()
    if status:
        os._exit(status)  # at once: leaving a process group in order would wait for ranks that are gone


def _run(notes: Path, task: str) -> int:
    """The exit status of the run."""
    from spt.config.handover import read_config, start_log

    is_rank_zero = os.environ["RANK"] == "0"
    try:
        cfg = read_config((notes / CONFIG).read_text(encoding="utf-8"))
        start_log(is_rank_zero=is_rank_zero)
        value = perform(task, cfg)
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:  # told to stop
        return end.code if isinstance(end.code, int) else 1
    except Exception as error:  # whatever it is, the parent shows it
        record_failure(error)
        return 1
    if is_rank_zero:
        (notes / VALUE).write_text(json.dumps(value), encoding="utf-8")
    return 0


def _end_soon(notes: Path, heard: list[int], number: int) -> None:
    """Ends this process in a while, unless the user has asked to stop: then training ends in its own time.

    A second Ctrl-C is meant for a run that does not.
    """
    heard.append(number)
    time.sleep(_GRACE)
    if not (notes / STOPPING).exists() or heard.count(signal.SIGINT) > 1:
        finish(exit_code=1)  # the main thread waits for what will not come
        os._exit(128 + number)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
