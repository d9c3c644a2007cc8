import threading
import time

import pytest

from rtviewer.errors import CancelledError
from rtviewer.session.image import ImageRequest
from rtviewer.session.jobs import JobCallbacks, JobRunner, Lane
from rtviewer.session.state import RaySettings


@pytest.fixture
def runner():
    runner = JobRunner(2)
    yield runner
    runner.close()


class Ends:
    """Notes how jobs end."""

    def __init__(self):
        self.heard = []

    def of(self, name):
        return JobCallbacks(
            on_finished=lambda result: self.heard.append((name, "finished", result)),
            on_failed=lambda error: self.heard.append((name, "failed", str(error))),
            on_cancelled=lambda: self.heard.append((name, "cancelled", None)),
        )


def until_cancelled(job):
    while not job.is_cancelled():
        time.sleep(0.001)
    raise CancelledError("stopped")


def test_a_job_ends_in_exactly_one_way(runner):
    ends = Ends()

    def failing(job):
        raise ValueError("no")

    runner.submit(Lane.LOG, "a", lambda job: 42, ends.of("a")).wait(5)
    runner.submit(Lane.LOG, "b", failing, ends.of("b")).wait(5)
    job = runner.submit(Lane.LOG, "c", until_cancelled, ends.of("c"))
    job.cancel()
    assert job.wait(5)
    assert ends.heard == [("a", "finished", 42), ("b", "failed", "no"), ("c", "cancelled", None)]


def test_a_newer_job_cancels_the_running_and_replaces_the_waiting(runner):
    ends, running = Ends(), threading.Event()

    def first(job):
        running.set()
        until_cancelled(job)

    one = runner.submit(Lane.IMAGE, "1", first, ends.of("1"))
    assert running.wait(5)
    slow_runs, let_slow_end = threading.Event(), threading.Event()

    def slow(job):
        slow_runs.set()
        return let_slow_end.wait(5)

    two = runner.submit(Lane.LOG, "slow", slow, ends.of("slow"))
    assert slow_runs.wait(5)
    waiting = runner.submit(Lane.LOG, "waiting", lambda job: 2, ends.of("waiting"))
    newest = runner.submit(Lane.LOG, "newest", lambda job: 3, ends.of("newest"))
    assert waiting.wait(5)
    assert two.is_cancelled()
    let_slow_end.set()
    assert newest.wait(5)
    runner.submit(Lane.IMAGE, "2", lambda job: 4, ends.of("2")).wait(5)
    assert one.wait(5)
    outcome = {name: how for name, how, _ in ends.heard}
    assert outcome == {
        "1": "cancelled",
        "2": "finished",
        "slow": "finished",
        "waiting": "cancelled",
        "newest": "finished",
    }
    assert len(ends.heard) == 5


def test_lanes_run_beside_each_other(runner):
    meeting = threading.Barrier(2, timeout=5)
    jobs = [runner.submit(lane, "meet", lambda job: meeting.wait()) for lane in (Lane.IMAGE, Lane.DOCUMENT)]
    assert all(job.wait(5) for job in jobs)
    assert not meeting.broken


def test_a_listener_that_raises_does_not_stop_its_lane(runner, monkeypatch):
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: raised.append(arguments.exc_type))
    bad = JobCallbacks(on_finished=lambda result: 1 / 0)
    assert runner.submit(Lane.LOG, "bad", lambda job: 1, bad).wait(5)
    ends = Ends()
    assert runner.submit(Lane.LOG, "good", lambda job: 2, ends.of("good")).wait(5)
    assert ends.heard == [("good", "finished", 2)]
    assert raised == [ZeroDivisionError]


def test_progress_is_silent_after_cancel(runner):
    heard = []

    def work(job):
        job.progress(0.5)
        job.cancel()
        job.progress(0.6)

    runner.submit(Lane.LOG, "title", work, JobCallbacks(on_progress=lambda f, text: heard.append((f, text)))).wait(5)
    assert heard == [(0.5, "title")]


def test_close_ends_all_threads_and_refuses_more():
    before = threading.active_count()
    runner = JobRunner(2)
    running = runner.submit(Lane.IMAGE, "1", until_cancelled)
    runner.close()
    assert running.is_done()
    assert threading.active_count() <= before
    with pytest.raises(RuntimeError, match="after close"):
        runner.submit(Lane.IMAGE, "2", lambda job: 1)


def test_images_come_coarse_first_and_the_newest_wins(runner, world, scene):
    steps, results = [], []

    def trace(generation, size):
        return runner.trace(
            ImageRequest(world, scene.cameras[0], *size, RaySettings(), generation=generation),
            lambda buffer, fraction, is_complete: steps.append((buffer.generation, buffer.step)),
            JobCallbacks(on_finished=lambda buffer: results.append(buffer.generation)),
        )

    old = trace(1, (4000, 3000))
    new = trace(2, (120, 80))
    assert old.wait(20)
    assert new.wait(20)
    assert results == [2]
    assert [step for generation, step in steps if generation == 2] == [4, 2, 1]
    assert (1, 1) not in steps
