"""The bar with which one moves through a ray's log: buttons of the action table, what to jump to, speed, position."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QToolButton, QWidget

from rtviewer.dxr.verdicts import VERDICTS, Verdict
from rtviewer.gui.binding import quiet
from rtviewer.gui.theme import monospaced
from rtviewer.session.playback import Stop, StopAt

JUMPS = (Stop.CANDIDATE, Stop.INSTANCE, Stop.COMMIT, Stop.NODE)
STEP_BUTTONS = ("log_first", "log_back", "log_play", "log_step", "log_last", "log_whole")
JUMP_BUTTONS = ("log_previous", "log_next")


class TransportBar(QWidget):
    """``speed_chosen(events per second)``."""

    speed_chosen = Signal(int)

    def __init__(self, speeds: tuple[int, ...], speed: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.buttons: dict[str, QToolButton] = {}
        line = QHBoxLayout(self)
        line.setContentsMargins(8, 2, 8, 0)
        line.setSpacing(2)
        for name in STEP_BUTTONS:
            line.addWidget(self._button(name))
        line.addSpacing(8)
        self.jump = QComboBox()
        self.jump.setAccessibleName("Jump to")
        self.jump.setToolTip("What the two arrows jump to: a kind of event, or a verdict that this ray met")
        self.jump.setMinimumContentsLength(14)
        self.jump.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        line.addWidget(self._button(JUMP_BUTTONS[0]))
        line.addWidget(self.jump)
        line.addWidget(self._button(JUMP_BUTTONS[1]))
        line.addSpacing(8)
        self.speed = QComboBox()
        self.speed.setAccessibleName("Speed of play")
        self.speed.setToolTip("Events a second when playing")
        for value in speeds:
            self.speed.addItem(f"{value:,}/s", value)
        self.speed.setCurrentIndex(speeds.index(speed))
        self.speed.activated.connect(lambda _: self.speed_chosen.emit(self.speed.currentData()))
        line.addWidget(self.speed)
        line.addSpacing(8)
        self.position = QLabel()
        self.position.setFont(monospaced(-1))
        self.position.setToolTip("The event that is shown, and where the ray ends once it has happened")
        line.addWidget(self.position, 1)
        self.set_verdicts({})

    def _button(self, name: str) -> QToolButton:
        button = QToolButton()
        button.setAutoRaise(True)
        button.setIconSize(QSize(16, 16))
        self.buttons[name] = button
        return button

    def set_actions(self, action: Callable[[str], QAction]) -> None:
        """Give the buttons their actions of the table."""
        for name, button in self.buttons.items():
            button.setDefaultAction(action(name))
            button.setAccessibleName(action(name).text())

    def set_verdicts(self, verdicts: Mapping[Verdict, int]) -> None:
        """Offer the verdicts of a log, with how many there are; what was chosen stays chosen where it is there."""
        chosen = self.stop
        with quiet(self.jump):
            self.jump.clear()
            for stop in JUMPS:
                self.jump.addItem(str(stop), stop)
            if verdicts:
                self.jump.insertSeparator(self.jump.count())
            for verdict, count in verdicts.items():
                self.jump.addItem(f"{VERDICTS[verdict].text} ({count:,})", int(verdict))
            place = self.jump.findData(int(chosen) if isinstance(chosen, Verdict) else chosen)
            self.jump.setCurrentIndex(max(place, 0))

    @property
    def stop(self) -> StopAt:
        """What is jumped to."""
        data = self.jump.currentData()
        if data is None:
            return Stop.CANDIDATE
        return Verdict(data) if isinstance(data, int) else Stop(data)

    def show_position(self, position: int, count: int, end: str) -> None:
        """``position`` -1 is the whole log."""
        where = f"event {position:,} of {count:,}" if position >= 0 else f"whole log, {count:,} events"
        self.position.setText(f"{where} · ray ends at t = {end}")
