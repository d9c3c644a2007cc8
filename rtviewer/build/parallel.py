"""Tasks on all processors, for kernels that release the GIL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count


def run_tasks(task: Callable[[int], object], number: int, *, threads: int = 0) -> None:
    """Call ``task`` with 0 to ``number - 1``, on this thread and on helpers.

    ``threads``: in all, 0 for one a processor.

    Tasks start in order. The first exception is raised here once all threads have stopped; tasks that have not started
    by then never do.
    """
    helpers = min(threads or os.cpu_count() or 1, number) - 1
    following, failures = count(), list[BaseException]()

    def work() -> None:
        try:
            while not failures and (index := next(following)) < number:
                task(index)
        except BaseException as error:
            failures.append(error)

    started = [threading.Thread(target=work, daemon=True) for _ in range(helpers)]
    for thread in started:
        thread.start()
    work()
    for thread in started:
        thread.join()
    if failures:
        raise failures[0]
