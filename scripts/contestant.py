"""A benchmark's worker in an environment of its own, which does what it is told line by line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import IO


class Contestant:
    """A worker process on so many threads.

    Args:
        command: python of its environment, script, arguments.
        threads: of its matrix products.
        log: what its libraries say.
    """

    def __init__(self, command: Sequence[str], *, threads: int, log: IO[str]) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        self.log = log.name

    def answer(self) -> str:
        """The next line of the worker.

        Raises:
            RuntimeError: it has ended.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(map(str, self.process.args))} ended; its last words are in {self.log}")
        return line.strip()

    def go(self) -> None:
        """Its turn."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """No more turns."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
