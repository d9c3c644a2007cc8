"""Collects garbage on the GUI thread only.

Python collects cycles on whatever thread happens to allocate. A cycle with a widget in it would then be destroyed on
a tracing or compiling thread, and Qt objects must die on the thread they live on; the process may crash when they do
not. So automatic collection is switched off while a window is open, and a timer asks, by the interpreter's own
counters and thresholds, whether a collection is due.
"""

from __future__ import annotations

import gc
import time

from PySide6.QtCore import QObject, QTimer

INTERVAL_MS = 200
OLDEST = 2
LARGEST_SHARE, REST_SECONDS = 0.01, 5.0
"""Full collections take at most this part of the time, and leave at least so many seconds between them."""


class Collector(QObject):
    """Takes over from the interpreter's automatic collection until ``stop``. Make it on the GUI thread."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_enabled = gc.isenabled()
        self._thresholds = gc.get_threshold()
        gc.disable()
        # What the program consists of stays; there is no use in looking through it again and again.
        gc.collect()
        gc.freeze()
        self._all_collected, self._all_took = time.monotonic(), 0.0
        self._timer = QTimer(self, interval=INTERVAL_MS)
        self._timer.timeout.connect(self.collect_if_due)
        self._timer.start()

    def collect_if_due(self) -> int:
        """Collect the oldest generation whose count is over its threshold; the generation, -1 for none."""
        counts = gc.get_count()
        limits = zip(counts, self._thresholds, strict=True)
        due = [number for number, (count, limit) in enumerate(limits) if 0 < limit < count]
        if not self._may_collect_all():
            due = [number for number in due if number < OLDEST]
        if not due:
            return -1
        began = time.monotonic()
        gc.collect(max(due))
        if max(due) == OLDEST:
            self._all_collected, self._all_took = time.monotonic(), time.monotonic() - began
        return max(due)

    def _may_collect_all(self) -> bool:
        """The interpreter weighs a full collection against what is new; here it may take a small part of the time."""
        return time.monotonic() - self._all_collected > max(self._all_took / LARGEST_SHARE, REST_SECONDS)

    def stop(self) -> None:
        """Automatic collection again, if there was any before."""
        self._timer.stop()
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()
