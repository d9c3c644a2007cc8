"""Work that waits until a window is seen, so that nothing competes with its first painting."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget

LONGEST_WAIT_MS = 1000
"""A window that opens minimised is not painted: the work starts all the same."""


class FirstPaint(QObject):
    """Calls ``then`` once, from the event loop, after ``window`` was painted first. Lives as long as the window."""

    def __init__(self, window: QWidget, then: Callable[[], None]) -> None:
        super().__init__(window)
        self._then = then
        self._is_due = False
        window.installEventFilter(self)
        QTimer.singleShot(LONGEST_WAIT_MS, self, self._start)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            QTimer.singleShot(0, self, self._start)  # the children are painted in this turn, after the window
        return False

    def _start(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._then()
