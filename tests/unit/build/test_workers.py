"""The threads of a build: tasks run once, in order, until one fails or the caller wants to stop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rtviewer.build import workers as module
from rtviewer.build.workers import Workers, together
from rtviewer.errors import CancelledError


@pytest.mark.parametrize("threads", [1, 3])
def test_tasks_run_once_each(threads: int) -> None:
    done: list[tuple[int, int]] = []
    with Workers(threads=threads) as workers:
        workers.each(lambda number: done.append((number, threading.get_ident())), 100)
        workers.each(lambda number: done.append((-1, 0)), 0)
    assert sorted(number for number, _ in done) == list(range(100))
    if threads == 1:
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


def test_calls_run_together_on_this_thread_and_on_kept_ones() -> None:
    met, seen = threading.Barrier(2, timeout=60), dict[int, int]()

    def call(number: int) -> None:
        seen[number] = threading.get_ident()
        met.wait()  # each needs the other

    for _ in range(3):
        together(call, 2)
        assert seen[0] == threading.get_ident() != seen.pop(1)


def test_a_call_that_does_not_start_in_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(1) as busy:
        monkeypatch.setattr(module, "_kept_threads", busy)
        go_on = threading.Event()
        busy.submit(go_on.wait, 60)
        seen: list[int] = []
        together(seen.append, 3)
        assert seen == [0]
        go_on.set()
    assert seen == [0]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_of_either_is_raised_when_both_have_ended(failing: int) -> None:
    met, ended = threading.Barrier(2, timeout=60), list[int]()

    def call(number: int) -> None:
        met.wait()
        if number == failing:
            raise ValueError(f"call {number}")
        ended.append(number)

    with pytest.raises(ValueError, match=f"call {failing}"):
        together(call, 2)
    assert ended == [1 - failing]
