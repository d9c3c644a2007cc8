"""A range of box depths: a two-handled slider between two number fields, one value for both."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSpinBox, QWidget
from superqt import QRangeSlider

from rtviewer.gui.binding import quiet

DEEPEST = 99


class DepthRange(QWidget):
    """``changed(low, high)`` says what the user wants, high -1 for all below; ``show_range`` shows what there is."""

    changed = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._levels = 0
        self.low, self.high = QSpinBox(), QSpinBox()
        for box, name, tip in (
            (self.low, "First depth", "First level of boxes drawn; 0 is the root"),
            (self.high, "Last depth", "Last level of boxes drawn; below 0 for all"),
        ):
            box.setAccessibleName(name)
            box.setToolTip(tip)
            box.setFixedWidth(52)
            box.setKeyboardTracking(False)
            box.valueChanged.connect(self._typed)
        self.low.setRange(0, DEEPEST)
        self.high.setRange(-1, DEEPEST)
        self.high.setSpecialValueText("all")
        self.slider = QRangeSlider(Qt.Orientation.Horizontal)
        self.slider.setAccessibleName("Depth range")
        self.slider.setToolTip("Levels of boxes drawn: drag an end, or the bar between the ends")
        self.slider.setMinimumSize(QSize(70, 20))
        self.slider.setMaximumWidth(130)
        self.slider.setRange(0, 1)
        self.slider.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the number fields are the way of the keyboard
        self.slider.valueChanged.connect(self._dragged)
        self._shown: tuple[int, int, int] | None = None
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(6)
        for widget in (self.low, self.slider, self.high):
            line.addWidget(widget)

    def set_levels(self, count: int) -> None:
        """How many levels there are."""
        self._levels = count
        with quiet(self.slider):
            self.slider.setRange(0, max(count - 1, 1))
        self.slider.setEnabled(count > 1)
        self.show_range(self.low.value(), self.high.value())

    def show_range(self, low: int, high: int) -> None:
        """Show these levels; painted anew only where something differs, because a camera that moves asks each time."""
        shown = (low, high, self.slider.maximum())
        if shown == self._shown and (low, high) == (self.low.value(), self.high.value()):
            return
        self._shown = shown
        with quiet(self.low, self.high, self.slider):
            self.low.setValue(low)
            self.high.setValue(high)
            deepest = self.slider.maximum()
            end = deepest if high < 0 else min(high, deepest)
            self.slider.setValue((min(low, end), end))

    def _typed(self) -> None:
        low, high = self.low.value(), self.high.value()
        self.changed.emit(low, low if 0 <= high < low else high)

    def _dragged(self, ends: tuple[int, int]) -> None:
        self._shown = None
        low, high = (int(end) for end in ends)
        self.changed.emit(low, -1 if high >= self._levels - 1 else high)
