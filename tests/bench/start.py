"""What compiling costs: all kernels into an empty cache, and from it afterwards, each in a process of its own."""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

from tests.bench.facts import Fact, run_child
from tests.bench.rows import Plan

CHILD = """
import json, time
marks, started = [], (time.perf_counter(), time.process_time())
import rtviewer.kernels as kernels
imported = time.perf_counter() - started[0]
kernels.warm_up(lambda fraction, text: marks.append((text, time.process_time())))
ended = time.perf_counter(), time.process_time()
steps = {text: later - cpu for (text, cpu), (_, later) in zip(marks, marks[1:])}
print(json.dumps(dict(wall=ended[0] - started[0], cpu=ended[1] - started[1], imported=imported, steps=steps)))
"""

COLD, COLD_WALL = "cold compile of all kernels", "cold compile of all kernels, wall"
WARM, IMPORT = "all kernels from the cache", "of that, importing numba and the kernels"


def measure_start(plan: Plan, *, cold: bool) -> list[Fact]:
    """``cold``: compile as well; else only loading, after a first process has filled the user's own cache."""
    if not cold:
        run_child(["-c", CHILD])
        return _warm([run_child(["-c", CHILD]) for _ in range(plan.rounds)])
    with tempfile.TemporaryDirectory() as folder:
        cache = {"XDG_CACHE_HOME": folder, "LOCALAPPDATA": folder}
        first = run_child(["-c", CHILD], cache)
        later = [run_child(["-c", CHILD], cache) for _ in range(plan.rounds)]
    steps = ", ".join(
        f"{text.removeprefix('compiling the ')} {seconds:.1f}" for text, seconds in first["steps"].items()
    )
    return [Fact(COLD, first["cpu"], "CPU s", steps), Fact(COLD_WALL, first["wall"], "s"), *_warm(later)]


def _warm(runs: list[dict[str, Any]]) -> list[Fact]:
    return [
        Fact(WARM, statistics.median(run["wall"] for run in runs), "s"),
        Fact(IMPORT, statistics.median(run["imported"] for run in runs), "s"),
    ]
