"""Rounds, medians and clocks."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Samples:
    """Seconds of the same work in every round, in order."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Slowest minus fastest round, as a part of the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median if self.median > 0 else 0.0


def interleave(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Samples]:
    """Seconds that each contender reports, once per round; each round starts with another, so that none is favoured."""
    names = list(contenders)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % max(len(names), 1)
        for name in names[first:] + names[:first]:
            taken[name].append(contenders[name]())
    return {name: Samples(tuple(seconds)) for name, seconds in taken.items()}


@contextmanager
def one_processor() -> Iterator[None]:
    """Keep this thread, and threads it starts meanwhile, on one processor where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
