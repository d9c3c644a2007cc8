"""Ctrl+C in the terminal: closes the windows as if by hand."""

from __future__ import annotations

import signal
from types import FrameType

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

POLL_MS = 200
"""Python runs signal handlers only when some Python runs: this often at least."""


class Interrupt:
    """While entered, SIGINT closes all windows from the event loop; a second one ends the process at once.

    ``is_requested`` says afterwards whether it came. Enter it on the main thread.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._timer = QTimer(interval=POLL_MS)
        self._timer.timeout.connect(self._poll)

    def __enter__(self) -> Interrupt:
        self._previous = signal.signal(signal.SIGINT, self._note)
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.stop()
        signal.signal(signal.SIGINT, self._previous)

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Only a note: this may run in the middle of anything."""
        self.is_requested = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def _poll(self) -> None:
        if self.is_requested:
            self._timer.stop()
            QApplication.closeAllWindows()
