"""What a process of a run on several devices does about signals and about the end of its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int) -> None:
    """Ties this process to its parent: when the parent is killed, the kernel kills this process. On Linux only.

    Args:
        parent: process id of the parent, as the parent wrote it down.
    """
    if sys.platform != "linux":
        return  # a rank that is left alone ends at its next collective
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before the line above
        os._exit(1)


@contextmanager
def listening(heard: Callable[[int], None]) -> Iterator[None]:
    """Calls `heard(signal number)` in a thread of its own for every stop signal that has a Python handler.

    Python runs handlers in the main thread and between two of its instructions. A main thread that waits in a
    collective for a process that is gone never comes to that; the thread of this function does.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def listen() -> None:
        while numbers := os.read(reader, 16):
            for number in numbers:
                if number in STOP_SIGNALS:
                    heard(number)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
        thread.join()
        os.close(reader)


@contextmanager
def restored_handlers() -> Iterator[None]:
    """Puts the handlers of the stop signals back at the end."""
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
