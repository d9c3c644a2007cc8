"""The legend of the picture shown: a scale with ticks, or named colours; always the same height."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from rtviewer.shade.legend import Legend, scale_image

BAR_HEIGHT = 9


class LegendBar(QWidget):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.legend: Legend | None = None
        self.setAccessibleName("Legend")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(64)

    def sizeHint(self) -> QSize:
        return QSize(240, BAR_HEIGHT + self.fontMetrics().height() + 6)

    def minimumSizeHint(self) -> QSize:
        return QSize(64, self.sizeHint().height())

    def set_legend(self, legend: Legend | None) -> None:
        self.legend = legend
        if legend is not None:
            unit = f" ({legend.unit})" if legend.unit else ""
            named = ", ".join(text for text, _ in legend.entries)
            self.setToolTip("\n".join(part for part in (f"{legend.title}{unit}", named, legend.note) if part))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.legend is None:
            return
        painter = QPainter(self)
        if self.legend.palette:
            self._paint_scale(painter, self.legend)
        elif self.legend.entries:
            self._paint_entries(painter, self.legend)
        else:
            painter.setPen(self.palette().color(self.foregroundRole()))
            text = self.fontMetrics().elidedText(self.legend.note, Qt.TextElideMode.ElideRight, self.width())
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()

    def _paint_scale(self, painter: QPainter, legend: Legend) -> None:
        margin = self.fontMetrics().horizontalAdvance("0000")
        bar = QRect(margin, 2, max(self.width() - 2 * margin, 20), BAR_HEIGHT)
        strip = scale_image(legend.palette, bar.width(), 1)
        painter.drawImage(bar, QImage(strip.data, bar.width(), 1, strip.strides[0], QImage.Format.Format_RGBA8888))
        painter.setPen(self.palette().color(self.foregroundRole()))
        baseline = BAR_HEIGHT + 4 + self.fontMetrics().ascent()
        free_from = 0
        for tick in legend.ticks:
            x = bar.left() + round(tick.position * (bar.width() - 1))
            width = self.fontMetrics().horizontalAdvance(tick.text)
            left = min(max(x - width // 2, 0), self.width() - width)
            painter.drawLine(x, bar.bottom(), x, bar.bottom() + 3)
            if left >= free_from:
                painter.drawText(left, baseline, tick.text)
                free_from = left + width + 6

    def _paint_entries(self, painter: QPainter, legend: Legend) -> None:
        """As many as find room; the tooltip has all."""
        metrics, size, gap = self.fontMetrics(), 11, 14
        top, x = (self.height() - size) // 2, 0
        more = legend.note or "…"
        for number, (text, colour) in enumerate(legend.entries):
            width = size + 5 + metrics.horizontalAdvance(text)
            is_last = number == len(legend.entries) - 1 and not legend.note
            if x + width + (0 if is_last else gap + metrics.horizontalAdvance("…")) > self.width():
                more = "…"
                break
            painter.fillRect(x, top, size, size, QColor(*colour))
            painter.setPen(self.palette().color(self.foregroundRole()))
            painter.drawText(x + size + 5, top + size - 1, text)
            x += width + gap
        else:
            more = legend.note
        if more:
            painter.setPen(self.palette().color(self.foregroundRole()))
            rest = metrics.elidedText(more, Qt.TextElideMode.ElideRight, self.width() - x)
            painter.drawText(x, top + size - 1, rest)
