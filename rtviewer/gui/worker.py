"""Brings calls from other threads to the GUI thread, and runs small work off it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QRunnable, Qt, QThreadPool, Signal

Call = Callable[[], Any]


class GuiThread(QObject):
    """``post(call)`` from any thread: ``call`` runs on the thread that made this object, in order of posting.

    After ``close`` nothing is run any more, so that a late result never reaches a dead window.
    """

    _wake = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._calls: deque[Call] = deque()
        self._is_open = True
        self._wake.connect(self._run, Qt.ConnectionType.QueuedConnection)

    def post(self, call: Call) -> None:
        if self._is_open:
            self._calls.append(call)
            self._wake.emit()

    def close(self) -> None:
        self._is_open = False
        self._calls.clear()

    def _run(self) -> None:
        if self._calls and self._is_open:
            self._calls.popleft()()


class Background:
    """One thread for work that only a view needs: vertex arrays, shading. What runs is finished and told; of what waits
    only the newest is kept, so that a stream of requests neither piles up nor starves."""

    def __init__(self, gui_thread: GuiThread) -> None:
        self._gui = gui_thread
        self._pool = QThreadPool()
        self._pool.setMaxThreadCount(1)
        self._lock = threading.Lock()
        self._busy = False
        self._is_open = True
        self._waiting: _Task | None = None

    def run(self, work: Call, done: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        """``work`` off the GUI thread, then ``done`` or ``failed`` on it."""
        task = _Task(self, work, done, failed)
        with self._lock:
            if not self._is_open:
                return
            if self._busy:
                self._waiting = task
                return
            self._busy = True
        self._pool.start(task)

    @property
    def is_busy(self) -> bool:
        with self._lock:
            return self._busy

    def close(self, milliseconds: int = 10_000) -> None:
        """Start nothing more and wait for what runs."""
        with self._lock:
            self._is_open, self._waiting = False, None
        self._pool.waitForDone(milliseconds)

    def _finished(self, tell: Call) -> None:
        self._gui.post(tell)
        with self._lock:
            task, self._waiting = self._waiting, None
            self._busy = task is not None
        if task is not None:
            self._pool.start(task)


class _Task(QRunnable):
    def __init__(
        self, owner: Background, work: Call, done: Callable[[Any], None], failed: Callable[[Exception], None]
    ) -> None:
        super().__init__()
        self._owner, self._work, self._done, self._failed = owner, work, done, failed

    def run(self) -> None:
        done, failed = self._done, self._failed
        try:
            result = self._work()
        except Exception as error:
            self._owner._finished(lambda error=error: failed(error))
        else:
            self._owner._finished(lambda: done(result))
