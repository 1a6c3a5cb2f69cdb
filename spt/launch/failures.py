"""What ended a run on several devices: every rank writes down its own error, the parent finds the first."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from spt.config.errors import ConfigError
from spt.reporting.atomic import write_text

FOLDER = "SPT_LAUNCH_FOLDER"
"""Environment variable: the folder in which ranks and their parent leave notes to each other."""

CONFIG, VALUE, STOPPING, PROCESS = "config.yaml", "value.json", "stopping", "process"
"""Notes: what to run, what came of it, that the user wants it to stop, and process ids of ranks."""

# what torch says on a rank whose peers are gone: an echo of another rank's error
_ECHO = re.compile(
    r"closed by peer|reset by peer|Connection refused|Broken pipe|connection closed|remote process exited|"
    r"NCCL communicator was aborted|Socket Timeout|gloo/transport|ncclRemoteError|ncclSystemError",
    re.IGNORECASE,
)


class Failure(NamedTuple):
    """Why a rank ended.

    Attributes:
        rank: global.
        at: seconds since the epoch; infinity for a rank that could not write it down.
        error: one line.
        text: for people: a traceback, or the message alone when the user's config is at fault.
        is_mistake: a ConfigError.
    """

    rank: int
    at: float
    error: str
    text: str
    is_mistake: bool

    @property
    def is_echo(self) -> bool:
        """Whether the rank only noticed that another one is gone."""
        return not self.is_mistake and _ECHO.search(self.error) is not None


def record_failure(error: BaseException) -> None:
    """Leaves this rank's error to the parent, the first time it is called; does nothing under another launcher."""
    folder, rank = os.environ.get(FOLDER), os.environ.get("RANK")
    if folder is None or rank is None or _file(Path(folder), int(rank)).exists():
        return
    is_mistake = isinstance(error, ConfigError)
    text = str(error) if is_mistake else "".join(traceback.format_exception(error)).rstrip()
    line = " ".join(f"{type(error).__name__}: {error}".split())
    failure = Failure(int(rank), time.time(), line, text, is_mistake)
    write_text(_file(Path(folder), int(rank)), json.dumps(failure._asdict()))


def first_failure(folder: Path, exit_codes: Mapping[int, int]) -> Failure:
    """The failure that made the others follow.

    Args:
        folder: with the notes of the ranks.
        exit_codes: of the ranks that failed; negative for a signal.
    """
    failures = [Failure(**json.loads(file.read_text())) for file in sorted(folder.glob("failure-*.json"))]
    written = {failure.rank for failure in failures}
    # SIGTERM is the launcher's own answer to a failure
    killed = {rank: code for rank, code in exit_codes.items() if rank not in written and code != -signal.SIGTERM}
    failures += [_unwritten(folder, rank, code) for rank, code in sorted(killed.items())]
    return min(failures, key=lambda failure: (failure.is_echo, failure.at))


def output_file(folder: Path, rank: int) -> Path | None:
    """Where the launcher keeps what a rank other than 0 wrote to stderr."""
    return next(iter(folder.glob(f"**/{rank}/stderr.log")), None)


def _unwritten(folder: Path, rank: int, code: int) -> Failure:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
    advice = "; the kernel does so when memory runs out" if code == -signal.SIGKILL else ""
    output = output_file(folder, rank)
    last_lines = "" if output is None else "\n".join(output.read_text(errors="replace").splitlines()[-20:])
    text = f"{last_lines}\nRank {rank} {how}{advice}.".lstrip()
    return Failure(rank, float("inf"), f"rank {rank} {how}{advice}", text, False)


def _file(folder: Path, rank: int) -> Path:
    return folder / f"failure-{rank}.json"
