"""Work off the caller's thread, without Qt: opening and building, images, ray logs, kernel warm-up.

Each lane is one thread that runs one job at a time and remembers at most one more: a newer job cancels the one that
runs. Callbacks are called on the lane's thread; whoever needs them elsewhere posts them (``session.commands`` does).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rtviewer.errors import CancelledError
from rtviewer.session.image import ImageBuffer, ImageRequest
from rtviewer.session.image_tracing import OnPass, follow_plan
from rtviewer.session.pace import Plan


class Lane(StrEnum):
    """What may run beside each other; within a lane the newest job wins."""

    DOCUMENT = "document"
    IMAGE = "image"
    LOG = "log"
    SHADE = "shade"
    PICK = "pick"
    COPY = "copy"
    RAYS = "rays"
    KERNELS = "kernels"
    PROGRAMS = "programs"


def default_threads() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


class Job:
    """A handle on submitted work, and what the work is given to report with and to ask whether to go on."""

    def __init__(self, lane: Lane, title: str, callbacks: JobCallbacks) -> None:
        self.lane = lane
        self.title = title
        self.callbacks = callbacks
        self._cancelled = threading.Event()
        self._done = threading.Event()

    def cancel(self) -> None:
        """Ask it to stop; it answers with ``on_cancelled`` unless it was done already."""
        self._cancelled.set()

    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def is_done(self) -> bool:
        """Whether its last callback has returned."""
        return self._done.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until its last callback has returned; False when ``timeout`` seconds were not enough."""
        return self._done.wait(timeout)

    def progress(self, fraction: float, text: str = "") -> None:
        """For the work: say how far it is."""
        if not self.is_cancelled():
            self.callbacks.on_progress(fraction, text or self.title)


def _nothing(*_: Any) -> None:
    """The callback of who does not want to know."""


@dataclass(frozen=True)
class JobCallbacks:
    """Exactly one of the last three is called for every submitted job, after any number of ``on_progress``."""

    on_progress: Callable[[float, str], None] = _nothing
    on_finished: Callable[[Any], None] = _nothing
    on_failed: Callable[[Exception], None] = _nothing
    on_cancelled: Callable[[], None] = _nothing


Work = Callable[[Job], Any]
"""Runs on the lane's thread, may raise CancelledError; its result goes to ``on_finished``."""


class _LaneThread:
    """A thread with a slot for the next job."""

    def __init__(self, lane: Lane) -> None:
        self._condition = threading.Condition()
        self._running: Job | None = None
        self._waiting: tuple[Job, Work] | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._loop, name=f"rtviewer-{lane}", daemon=True)
        self._thread.start()

    def submit(self, job: Job, work: Work) -> None:
        with self._condition:
            if self._is_closed:
                raise RuntimeError("jobs were submitted after close")
            dropped, self._waiting = self._waiting, (job, work)
            if self._running is not None:
                self._running.cancel()
            self._condition.notify()
        if dropped is not None:
            _finish(dropped[0], dropped[0].callbacks.on_cancelled)

    def cancel(self) -> None:
        with self._condition:
            dropped, self._waiting = self._waiting, None
            if self._running is not None:
                self._running.cancel()
        if dropped is not None:
            _finish(dropped[0], dropped[0].callbacks.on_cancelled)

    def is_busy(self) -> bool:
        with self._condition:
            return self._running is not None or self._waiting is not None

    def close(self, timeout: float) -> None:
        self.cancel()
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        self._thread.join(timeout)

    def _loop(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting is not None or self._is_closed)
                if self._waiting is None:
                    return
                (job, work), self._waiting = self._waiting, None
                self._running = job
            try:
                _run(job, work)
            finally:
                with self._condition:
                    self._running = None


def _run(job: Job, work: Work) -> None:
    """Run a job to its last callback. What a callback raises is the listener's fault and must not stop the lane."""
    try:
        result = work(job)
    except CancelledError:
        _finish(job, job.callbacks.on_cancelled)
    except Exception as error:
        _finish(job, job.callbacks.on_failed, error)
    else:
        # A result is handed on even if a cancel came too late: it is whole, and the receiver knows its generation.
        _finish(job, job.callbacks.on_finished, result)


def _finish(job: Job, callback: Callable[..., None], *arguments: Any) -> None:
    try:
        callback(*arguments)
    except Exception as error:
        threading.excepthook(
            threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
        )
    finally:
        job._done.set()


class JobRunner:
    """All lanes and the pool that image tiles run on. Any thread may call; ``close`` ends all threads."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or default_threads()
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="rtviewer-tile")
        self.shade_pool = ThreadPoolExecutor(self.threads, thread_name_prefix="rtviewer-shade")
        """Beside the pool of tiles, where a pass would keep colouring waiting."""
        self._plan = Plan()
        self._lanes: dict[Lane, _LaneThread] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def _lane(self, lane: Lane) -> _LaneThread:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("jobs were submitted after close")
            if lane not in self._lanes:
                self._lanes[lane] = _LaneThread(lane)
            return self._lanes[lane]

    def submit(self, lane: Lane, title: str, work: Work, callbacks: JobCallbacks | None = None) -> Job:
        """Run ``work`` next in its lane, cancelling what runs there and forgetting what waits there."""
        job = Job(lane, title, callbacks or JobCallbacks())
        self._lane(lane).submit(job, work)
        return job

    def trace(self, request: ImageRequest, on_pass: OnPass | None = None, callbacks: JobCallbacks | None = None) -> Job:
        """Trace an image, coarse first; it cancels the one before it. ``on_finished`` gets the complete ImageBuffer.

        Once the job is cancelled ``on_pass`` is called for the first pass at most, if that is soon done: pictures that
        are asked for faster than they come are then still seen.
        """
        is_first = True

        def hand_on(buffer: ImageBuffer, fraction: float, is_complete: bool) -> None:
            nonlocal is_first
            if on_pass is not None and (is_first or not job.is_cancelled()):
                on_pass(buffer, fraction, is_complete)
            is_first = False

        def work(running: Job) -> ImageBuffer:
            return follow_plan(
                self._plan,
                request,
                self._pool,
                self.threads,
                on_pass=hand_on,
                on_progress=lambda fraction: running.progress(fraction, "tracing"),
                cancelled=running.is_cancelled,
            )

        job = Job(Lane.IMAGE, "tracing", callbacks or JobCallbacks())
        self._lane(Lane.IMAGE).submit(job, work)
        return job

    def cancel(self, lane: Lane | None = None) -> None:
        """Cancel what runs or waits in one lane, or in all."""
        with self._lock:
            lanes = list(self._lanes.values()) if lane is None else [self._lanes[lane]] if lane in self._lanes else []
        for thread in lanes:
            thread.cancel()

    def is_busy(self, lane: Lane | None = None) -> bool:
        """Whether a job runs or waits in a lane, or in any."""
        with self._lock:
            lanes = list(self._lanes.values()) if lane is None else [self._lanes[lane]] if lane in self._lanes else []
        return any(thread.is_busy() for thread in lanes)

    def close(self, timeout: float = 10.0) -> None:
        """Cancel everything and wait for the threads, ``timeout`` seconds at most for each."""
        with self._lock:
            self._is_closed = True
            lanes = list(self._lanes.values())
        for thread in lanes:
            thread.close(timeout)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.shade_pool.shutdown(wait=False)
