"""Plays a ray's log: a clock that asks the session for steps."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QWidget

from rtviewer.gui.binding import listen
from rtviewer.session.commands import Session
from rtviewer.session.events import LogChanged

SPEEDS = (1, 3, 10, 30, 100, 1000)
"""Events a second."""
DEFAULT_SPEED = 3
LEAST_MS = 33
"""Ticks come no more often; what is faster takes several events at a time."""


class LogPlayer(QObject):
    """``changed(is_playing)``. Stops at the last event shown, and when another ray is logged."""

    changed = Signal(bool)

    def __init__(self, owner: QWidget, session: Session) -> None:
        super().__init__(owner)
        self._session = session
        self._speed = DEFAULT_SPEED
        self._told = 0.0
        self._owed = 0.0
        self._log = session.log
        self._timer = QTimer(self, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        listen(owner, session, {LogChanged: self._log_changed})

    @property
    def is_playing(self) -> bool:
        return self._timer.isActive()

    @property
    def speed(self) -> int:
        return self._speed

    def set_speed(self, events_per_second: int) -> None:
        self._speed = events_per_second
        self._timer.setInterval(self._interval())

    def _interval(self) -> int:
        return max(1000 // self._speed, LEAST_MS)

    def toggle(self) -> None:
        if self.is_playing:
            self.stop()
        else:
            self.play()

    def play(self) -> None:
        """From where the log stands; from its beginning when it is at its end."""
        if self._session.log is None:
            return
        if self._is_at_end():
            self._session.seek_log(-1)
        self._told, self._owed = time.monotonic(), 1.0  # the first step at once
        self._timer.start(self._interval())
        self.changed.emit(True)
        self._tick()

    def stop(self) -> None:
        if self.is_playing:
            self._timer.stop()
            self.changed.emit(False)

    def _tick(self) -> None:
        now = time.monotonic()
        self._owed += (now - self._told) * self._speed
        self._told = now
        count = int(self._owed)
        if count < 1:
            return
        self._owed -= count
        if self._session.step_log(count=count) is not None or self._is_at_end():
            self.stop()

    def _is_at_end(self) -> bool:
        log, state = self._session.log, self._session.state
        return log is None or log.playback.next(state.log_position, within=state.log_filter) < 0

    def _log_changed(self, event: LogChanged) -> None:
        if event.log is None or not event.log.is_same_walk(self._log):
            self.stop()
        self._log = event.log
