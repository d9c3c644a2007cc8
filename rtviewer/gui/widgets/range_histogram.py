"""The spread of a heat map's numbers over the palette that colours them, with limits to drag."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QWidget

from rtviewer.gui.binding import quiet
from rtviewer.gui.theme import Theme
from rtviewer.shade.heatmap import heatmap
from rtviewer.shade.legend import nice_ticks, value_text
from rtviewer.shade.modes import Shaded

HEIGHT = 76
STRIP_LOW, STRIP_HIGH = -0.24, -0.06
"""Where the palette's strip stands below the bars, whose highest reaches 1."""
HEADROOM = 1.5
"""The bars end below this: the figures stand above them."""
STRIP_STEPS = 512
TICK_SPACING = 50
"""Pixels between ticks, about."""


class RangeHistogram(pg.PlotWidget):
    """``limits_dragged(low, high)`` while a limit moves; ``reset_asked`` on a double click.

    Bars are as high as the logarithm of their counts, so that a few pixels are seen beside many.
    """

    limits_dragged = Signal(float, float)
    reset_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.shown: Shaded | None = None
        self.setAccessibleName("Histogram")
        self.setToolTip(
            "How many pixels have which value (logarithmic). Drag a limit, or the range between the limits: the "
            "palette's ends follow. Double-click for the automatic range."
        )
        self.setFixedHeight(HEIGHT)
        self.setMinimumWidth(120)
        self.setMenuEnabled(False)
        self.setMouseEnabled(False, False)
        self.hideButtons()
        item = self.getPlotItem()
        item.setContentsMargins(6, 0, 6, 0)
        item.hideAxis("left")
        self.axis = item.getAxis("bottom")
        self.axis.setStyle(tickLength=3, tickTextOffset=1, hideOverlappingLabels=False)
        self.axis.enableAutoSIPrefix(False)
        item.getViewBox().setDefaultPadding(0.0)
        self.bars = pg.BarGraphItem(x0=np.zeros(1), x1=np.ones(1), height=np.zeros(1))
        self.strip = pg.ImageItem(axisOrder="row-major")
        self.region = pg.LinearRegionItem((0.0, 1.0), swapMode="block")
        self.region.setZValue(10)
        for line in self.region.lines:
            line.setCursor(Qt.CursorShape.SizeHorCursor)
        self.region.sigRegionChanged.connect(self._dragged)
        self.region.sigRegionChangeFinished.connect(lambda: self._show_span())
        for part in (self.bars, self.strip, self.region):
            self.addItem(part)
        self.figures = QLabel(self)
        self.figures.setProperty("role", "muted")
        self.figures.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    @property
    def is_dragged(self) -> bool:
        return bool(self.region.moving or any(line.moving for line in self.region.lines))

    def show_shaded(self, shaded: Shaded | None) -> None:
        """Show the numbers of a picture; nothing for a mode without a range."""
        self.shown = shaded
        if shaded is None or shaded.histogram is None:
            return
        spread = shaded.histogram
        heights = np.log1p(spread.counts)
        heights /= max(float(heights.max()), 1e-9)
        middles = 0.5 * (spread.edges[:-1] + spread.edges[1:])
        colours = heatmap(middles, shaded.legend.palette, shaded.low, shaded.high)
        self.bars.setOpts(
            x0=spread.edges[:-1], x1=spread.edges[1:], height=heights, brushes=[QColor(*c) for c in colours.tolist()],
            pen=None, pens=[pg.mkPen(None)] * len(heights),
        )  # fmt: skip
        if not self.is_dragged:
            with quiet(self.region, *self.region.lines):
                self.region.setRegion((shaded.low, shaded.high))
            self._show_span()
        else:
            self._show_strip()
        self._show_figures()

    def _show_span(self) -> None:
        """Values from the left to the right end: all bars and both limits, with a little room."""
        if self.shown is None or self.shown.histogram is None:
            return
        edges = self.shown.histogram.edges
        low, high = min(edges[0], self.shown.low), max(edges[-1], self.shown.high)
        room = 0.02 * (high - low) or 0.5
        self._span = (low - room, high + room)
        self.setRange(xRange=self._span, yRange=(STRIP_LOW, HEADROOM), padding=0.0)
        self._show_strip()
        self._show_ticks()

    def _show_strip(self) -> None:
        assert self.shown is not None
        low, high = self._span
        values = np.linspace(low, high, STRIP_STEPS)[None, :]
        self.strip.setImage(
            heatmap(values, self.shown.legend.palette, self.shown.low, self.shown.high), autoLevels=False, levels=None
        )
        self.strip.setRect(QRectF(low, STRIP_LOW, high - low, STRIP_HIGH - STRIP_LOW))

    def _show_ticks(self) -> None:
        assert self.shown is not None
        assert self.shown.histogram is not None
        low, high = self.shown.histogram.edges[[0, -1]]
        if self.shown.mode.whole:
            low, high = low + 0.5, high - 0.5
        low, high = min(low, self.shown.low), max(high, self.shown.high)
        count = max(self.width() // TICK_SPACING, 2)
        ticks = nice_ticks(float(low), float(high), count, whole=self.shown.mode.whole)
        self.axis.setTicks([[(low + tick.position * (high - low), tick.text) for tick in ticks], []])

    def _show_figures(self) -> None:
        assert self.shown is not None
        spread = self.shown.histogram
        assert spread is not None
        step = max((spread.high - spread.low) / 100, 1e-9)
        whole = 1.0 if self.shown.mode.whole else step
        self.figures.setText(
            f"mean {value_text(spread.mean, min(step, 0.1) if self.shown.mode.whole else step)}  "
            f"p50 {value_text(spread.p50, whole)}  p95 {value_text(spread.p95, whole)}  "
            f"max {value_text(spread.high, whole)}"
        )
        self.figures.adjustSize()
        self._place_figures()

    def _place_figures(self) -> None:
        self.figures.move(self.width() - self.figures.width() - 8, 2)

    def _dragged(self) -> None:
        low, high = self.region.getRegion()
        if self.is_dragged:
            self.limits_dragged.emit(float(low), float(high))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.reset_asked.emit()
        event.accept()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if hasattr(self, "figures"):  # the base class resizes before it is there
            self._place_figures()
            if self.shown is not None and self.shown.histogram is not None:
                self._show_ticks()

    def retint(self, theme: Theme) -> None:
        """Take the theme's colours."""
        veil = QColor(theme.window)
        veil.setAlpha(225)
        self.setBackground(veil)
        self.axis.setPen(QColor(theme.border))
        self.axis.setTextPen(QColor(theme.text))
        accent = QColor(theme.accent)
        for line in self.region.lines:
            line.setPen(pg.mkPen(accent, width=2))
            line.setHoverPen(pg.mkPen(QColor(theme.text), width=2))
        for fill, alpha in ((self.region.setBrush, 26), (self.region.setHoverBrush, 44)):
            fill(pg.mkBrush(accent.red(), accent.green(), accent.blue(), alpha))
