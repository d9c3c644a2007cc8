"""Bytes in hex and as text, painted row by row: any length costs the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from rtviewer.gui.theme import Theme, monospaced

WIDEST, NARROWEST = 16, 8
"""Bytes a row: as many as have room."""
KEYS = (
    Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown,
)  # fmt: skip
_PRINTABLE = bytes(range(32, 127))


class HexView(QAbstractScrollArea):
    """``set_bytes`` shows, ``mark`` highlights a range, ``clicked(offset)`` tells which byte the user pointed at."""

    clicked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Bytes in hex")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.data: NDArray[np.uint8] = np.empty(0, np.uint8)
        self.marked = (0, 0)
        self.per_row = WIDEST
        self._theme: Theme | None = None
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.viewport().setFont(monospaced(-1))
        self._measure()

    def set_bytes(self, data: NDArray[np.uint8]) -> None:
        self.data = data
        self.marked = (0, 0)
        self.verticalScrollBar().setValue(0)
        self._measure()

    def mark(self, offset: int, size: int) -> None:
        """Highlight ``size`` bytes from ``offset`` and scroll there."""
        self.marked = (offset, offset + size)
        row, bar = offset // self.per_row, self.verticalScrollBar()
        if not bar.value() <= row < bar.value() + self._rows_shown() - 1:
            bar.setValue(max(row - 1, 0))
        self.viewport().update()

    def sizeHint(self) -> QSize:
        return QSize(340, 160)

    def row_text(self, row: int) -> str:
        """Offset, hex and text of one row."""
        part = self.data[row * self.per_row : (row + 1) * self.per_row].tobytes()
        text = "".join(chr(byte) if byte in _PRINTABLE else "·" for byte in part)
        return f"{row * self.per_row:08X}  {part.hex(' '):<{self.per_row * 3 - 1}}  {text}"

    def byte_at(self, x: int, y: int) -> int:
        """The byte at a place of the viewport, -1 where there is none."""
        row = self.verticalScrollBar().value() + y // self._line
        column = (x - self._left) // self._char - 10
        inside = column // 3 if 0 <= column < 3 * self.per_row - 1 else column - 3 * self.per_row - 1
        offset = row * self.per_row + inside
        return offset if 0 <= inside < self.per_row and 0 <= offset < len(self.data) else -1

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = self._theme
        if theme is None:
            return
        painter = QPainter(self.viewport())
        first = self.verticalScrollBar().value()
        for line in range(self._rows_shown() + 1):
            row = first + line
            if row * self.per_row >= len(self.data):
                break
            self._paint_mark(painter, row, line * self._line, theme)
            text = self.row_text(row)
            base = line * self._line + self._ascent
            painter.setPen(QColor(theme.muted))
            painter.drawText(self._left, base, text[:8])
            painter.setPen(QColor(theme.text))
            painter.drawText(self._left + 10 * self._char, base, text[10 : 10 + 3 * self.per_row - 1])
            painter.setPen(QColor(theme.muted))
            painter.drawText(self._left + (11 + 3 * self.per_row) * self._char, base, text[11 + 3 * self.per_row :])
        painter.end()

    def _paint_mark(self, painter: QPainter, row: int, top: int, theme: Theme) -> None:
        first = max(self.marked[0] - row * self.per_row, 0)
        last = min(self.marked[1] - row * self.per_row, self.per_row)
        if first >= last:
            return
        colour = QColor(theme.selection)
        for begin, each, taken in ((10, 3, 3 * (last - first) - 1), (11 + 3 * self.per_row, 1, last - first)):
            x = self._left + (begin + each * first) * self._char
            painter.fillRect(QRect(x, top, taken * self._char, self._line), colour)

    # Size

    def _measure(self) -> None:
        metrics = self.viewport().fontMetrics()
        self._char, self._line = max(metrics.horizontalAdvance("0"), 1), metrics.height() + 1
        self._ascent, room = metrics.ascent(), self.viewport().width()
        first_byte = self.verticalScrollBar().value() * self.per_row
        self.per_row = WIDEST if self._width_of(WIDEST) <= room else NARROWEST
        width = self._width_of(self.per_row)
        rows = -(-len(self.data) // self.per_row)
        self.verticalScrollBar().setRange(0, max(rows - self._rows_shown(), 0))
        self.verticalScrollBar().setPageStep(self._rows_shown())
        self.verticalScrollBar().setValue(first_byte // self.per_row)
        self.horizontalScrollBar().setRange(0, max(width - room, 0))
        self.viewport().update()

    def _width_of(self, per_row: int) -> int:
        return 12 + (11 + 4 * per_row) * self._char

    @property
    def _left(self) -> int:
        return 6 - self.horizontalScrollBar().value()

    def _rows_shown(self) -> int:
        return max(self.viewport().height() // self._line, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._measure()

    _char, _line, _ascent = 8, 16, 12

    # Mouse and keys

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = self.byte_at(int(event.position().x()), int(event.position().y()))
        if at >= 0:
            self.clicked.emit(at)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and event.key() in KEYS:
            event.accept()  # the window has a shortcut on Home; here it scrolls
            return True
        return super().event(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar = self.verticalScrollBar()
        steps = {
            Qt.Key.Key_Home: bar.minimum() - bar.value(), Qt.Key.Key_End: bar.maximum() - bar.value(),
            Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1,
            Qt.Key.Key_PageUp: -bar.pageStep(), Qt.Key.Key_PageDown: bar.pageStep(),
        }  # fmt: skip
        if event.key() in steps:
            bar.setValue(bar.value() + steps[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)
