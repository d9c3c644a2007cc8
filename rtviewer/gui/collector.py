"""Collects garbage on the GUI thread only.

Python collects cycles on whatever thread happens to allocate. A cycle with a widget in it would then be destroyed on
a tracing or compiling thread, and Qt objects must die on the thread they live on; the process may crash when they do
not. So automatic collection is switched off while a window is open, and a timer asks, by the interpreter's own
counters and thresholds, whether a collection is due.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

INTERVAL_MS = 200


class Collector(QObject):
    """Takes over from the interpreter's automatic collection until ``stop``. Make it on the GUI thread."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_enabled = gc.isenabled()
        self._thresholds = gc.get_threshold()
        gc.disable()
        self._timer = QTimer(self, interval=INTERVAL_MS)
        self._timer.timeout.connect(self.collect_if_due)
        self._timer.start()

    def collect_if_due(self) -> int:
        """Collect the oldest generation whose count is over its threshold; the generation, -1 for none."""
        counts = gc.get_count()
        limits = zip(counts, self._thresholds, strict=True)
        due = [number for number, (count, limit) in enumerate(limits) if 0 < limit < count]
        if not due:
            return -1
        gc.collect(max(due))
        return max(due)

    def stop(self) -> None:
        """Automatic collection again, if there was any before."""
        self._timer.stop()
        if self._was_enabled:
            gc.enable()
