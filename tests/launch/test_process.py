"""Signals are heard while the main thread waits, and a rank ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from spt.launch.process import STOP_SIGNALS, listening, restored_handlers

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import os, subprocess, sys, time
own = "import os, sys, time; from spt.launch.process import end_with_parent; end_with_parent(int(sys.argv[1]));"
own += "print(os.getpid(), flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", own, str(os.getpid())])
time.sleep(60)
"""


def test_a_stop_signal_is_heard_by_another_thread() -> None:
    heard: list[int] = []
    done = threading.Event()

    def hear(number: int) -> None:
        heard.append(number)
        done.set()

    with restored_handlers():
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        with listening(hear):
            os.kill(os.getpid(), signal.SIGTERM)
            assert done.wait(10)
    assert heard == [signal.SIGTERM]


def test_handlers_are_put_back() -> None:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    with restored_handlers():
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    assert {number: signal.getsignal(number) for number in STOP_SIGNALS} == before


def test_a_process_ends_with_the_parent_that_it_is_tied_to() -> None:
    parent = subprocess.Popen([sys.executable, "-c", CHILD], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 10
    while _is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_alive(child)


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
