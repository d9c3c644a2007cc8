"""The threads of one build."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

from rtviewer.errors import CancelledError

Progress = Callable[[float], None]
Cancelled = Callable[[], bool]

POLL_SECONDS = 0.05
SMALLEST_PIECE = 1 << 14
"""Fewer elements than this are not worth a thread of their own."""


class Workers:
    """All cores, used as a context; threads start with the first call that needs them.

    ``check`` and ``next_done`` raise CancelledError once the caller wants to stop.
    """

    def __init__(self, progress: Progress | None = None, cancelled: Cancelled | None = None) -> None:
        self.count = os.cpu_count() or 1
        self._progress, self._cancelled = progress, cancelled
        self._pool: ThreadPoolExecutor | None = None
        self._done: SimpleQueue[Future[Any]] = SimpleQueue()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def check(self) -> None:
        if self._cancelled is not None and self._cancelled():
            raise CancelledError("the build was cancelled")

    def report(self, fraction: float) -> None:
        if self._progress is not None:
            self._progress(fraction)

    def pieces(self, count: int) -> list[tuple[int, int]]:
        """Ranges that cover 0 to ``count``, at most one a thread. Results must not depend on where they end."""
        number = max(1, min(self.count, count // SMALLEST_PIECE))
        edges = [count * k // number for k in range(number + 1)]
        return list(pairwise(edges))

    def all(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run calls at the same time, the first on this thread; their results in order."""
        self.check()
        futures = [self._submit(call) for call in calls[1:]]
        first = [call() for call in calls[:1]]
        return first + [future.result() for future in futures]

    def start(self, call: Callable[[], Any]) -> Future[Any]:
        """Queue a call; ``next_done`` returns it when it has ended."""
        future = self._submit(call)
        future.add_done_callback(self._done.put)
        return future

    def next_done(self) -> Future[Any]:
        while True:
            self.check()
            try:
                return self._done.get(timeout=POLL_SECONDS)
            except Empty:
                continue

    def _submit(self, call: Callable[[], Any]) -> Future[Any]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        return self._pool.submit(call)
