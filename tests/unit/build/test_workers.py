"""The threads of a build: tasks run once, in order, until one fails or the caller wants to stop."""

from __future__ import annotations

import threading

import pytest

from rtviewer.build.workers import Workers
from rtviewer.errors import CancelledError


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("lone", [False, True])
def test_tasks_run_once_each(threads: int, lone: bool) -> None:
    done: list[tuple[int, int]] = []
    with Workers(threads=threads) as workers:
        workers.each(lambda number: done.append((number, threading.get_ident())), 100, lone=lone)
        workers.each(lambda number: done.append((-1, 0)), 0)
    assert sorted(number for number, _ in done) == list(range(100))
    if lone or threads == 1:
        assert {thread for _, thread in done} == {threading.get_ident()}
        assert [number for number, _ in done] == list(range(100))


def test_the_first_failure_is_raised_and_ends_the_others() -> None:
    done: list[int] = []

    def fail(number: int) -> None:
        if number == 3:
            raise ValueError("three")
        done.append(number)

    with Workers(threads=2) as workers, pytest.raises(ValueError, match="three"):
        workers.each(fail, 100_000)
    assert len(done) < 100_000


def test_progress_grows_within_its_share_and_cancelling_stops() -> None:
    fractions: list[float] = []
    with Workers(fractions.append, threads=1) as workers:
        workers.each(lambda number: None, 50, share=(0.25, 0.75))
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.25
    assert 0.7 < fractions[-1] < 0.75
    done: list[int] = []
    with Workers(cancelled=lambda: len(done) == 7, threads=1) as workers, pytest.raises(CancelledError):
        workers.each(done.append, 50)
    assert done == list(range(7))
