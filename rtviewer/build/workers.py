"""The threads of one build."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count as numbers
from itertools import pairwise
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

from rtviewer.errors import CancelledError

Progress = Callable[[float], None]
Cancelled = Callable[[], bool]
Share = tuple[float, float]
"""Progress before and after a piece of work."""

POLL_SECONDS = 0.05
SMALLEST_PIECE = 1 << 14
"""Fewer elements than this are not worth a thread of their own."""


class Workers:
    """The threads of one build or update, used as a context; they start with the first call that needs them.

    ``threads``: in all, 0 for one a processor. ``check``, ``each`` and ``next_done`` raise CancelledError once the
    caller wants to stop.
    """

    def __init__(
        self, progress: Progress | None = None, cancelled: Cancelled | None = None, *, threads: int = 0
    ) -> None:
        self.count = threads or os.cpu_count() or 1
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
            self._pool = None

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

    def each(
        self,
        task: Callable[[int], object],
        number: int,
        *,
        share: tuple[float, float] | None = None,
    ) -> None:
        """Call ``task`` with 0 to ``number - 1``, on this thread and the others.

        ``share``: progress to tell meanwhile. Tasks start in order. The first failure is
        raised here once all threads have stopped; tasks that have not started by then never do.
        """
        following, failures = numbers(), list[BaseException]()

        def work(between: Callable[[int], None] | None) -> None:
            try:
                while not failures and (index := next(following)) < number:
                    if between is not None:
                        between(index)
                    task(index)
            except BaseException as error:
                failures.append(error)

        def between(index: int) -> None:
            self.check()
            if share is not None:
                self.report(share[0] + (share[1] - share[0]) * index / number)

        helpers = min(self.count, number) - 1
        futures = [self._submit(partial(work, None)) for _ in range(helpers)]
        work(between)
        for future in futures:
            future.result()
        if failures:
            raise failures[0]

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


_kept_threads = ThreadPoolExecutor(os.cpu_count() or 1, "kept")
"""Threads of calls that are over before new ones would have started."""


def together(call: Callable[[int], object], count: int) -> None:
    """Run ``call(0)`` on this thread and ``call(1)`` to ``call(count - 1)`` on others, if they start in time.

    The calls share work among them, so that the first alone would do all of it. Returns when none is running.
    """
    futures = [_kept_threads.submit(call, number) for number in range(1, count)]
    try:
        call(0)
    finally:
        for future in futures:
            if not future.cancel():
                future.result()
