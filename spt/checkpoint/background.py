"""Writing a checkpoint beside training."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BackgroundWriter:
    """One thread that does one thing after the other, in the order in which they were handed over."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spt-checkpoint")
        self._pending: list[Future[None]] = []

    def hand_over(self, act: Callable[[], None]) -> None:
        """Does it once all before it has succeeded; after a failure nothing more is done until `wait` has told."""
        before = self._pending[-1] if self._pending else None

        def after() -> None:
            if before is not None:
                before.result()
            act()

        self._pending.append(self._thread.submit(after))

    def wait(self) -> None:
        """Returns once everything is done.

        Raises:
            OSError, RuntimeError: of what was done, the first.
        """
        pending, self._pending = self._pending, []
        for future in pending:
            future.result()
