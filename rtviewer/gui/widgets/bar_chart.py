"""Horizontal bars with their numbers: one row a value, all to one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from rtviewer.gui.theme import Theme, monospaced

GAP = 8


@dataclass(frozen=True)
class Bar:
    """``text``: the number as words. ``is_quiet``: greyed, for what is no result. ``tip`` explains."""

    name: str
    value: float
    text: str
    tip: str = ""
    is_quiet: bool = False


class BarChart(QWidget):
    """Rows of name, bar and number; the longest bar has the whole width there is."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.bars: tuple[Bar, ...] = ()
        self._theme: Theme | None = None
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_bars(self, bars: Sequence[Bar]) -> None:
        self.bars = tuple(bars)
        self.setAccessibleDescription("; ".join(f"{bar.name}: {bar.text}" for bar in bars))
        self.setToolTip("\n".join(f"{bar.name}: {bar.text}" + (f" – {bar.tip}" if bar.tip else "") for bar in bars))
        self.updateGeometry()
        self.update()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    @property
    def _row(self) -> int:
        return self.fontMetrics().height() + 4

    def sizeHint(self) -> QSize:
        return QSize(300, self._row * len(self.bars))

    def minimumSizeHint(self) -> QSize:
        return QSize(200, self.sizeHint().height())

    def bar_widths(self) -> list[float]:
        """Pixels of each bar."""
        names, numbers = self._columns()
        room = max(self.width() - names - numbers - 2 * GAP, 10)
        longest = max((bar.value for bar in self.bars), default=0) or 1
        return [room * max(bar.value, 0) / longest for bar in self.bars]

    def _columns(self) -> tuple[int, int]:
        digits = QFontMetrics(monospaced(-1))
        return (
            max((self.fontMetrics().horizontalAdvance(bar.name) for bar in self.bars), default=0),
            max((digits.horizontalAdvance(bar.text) for bar in self.bars), default=0),
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = self._theme
        if theme is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        names, numbers = self._columns()
        for number, (bar, width) in enumerate(zip(self.bars, self.bar_widths(), strict=True)):
            top = number * self._row
            painter.setFont(self.font())
            painter.setPen(QColor(theme.muted if bar.is_quiet else theme.text))
            left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(0, top, names, self._row), left, bar.name)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.border if bar.is_quiet else theme.accent))
            if width > 0:
                painter.drawRoundedRect(QRectF(names + GAP, top + 3, max(width, 1.5), self._row - 6), 2, 2)
            painter.setFont(monospaced(-1))
            painter.setPen(QColor(theme.muted if bar.is_quiet else theme.text))
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(self.width() - numbers, top, numbers, self._row), right, bar.text)
        painter.end()
