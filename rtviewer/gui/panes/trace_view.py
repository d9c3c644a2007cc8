"""The traced picture: coarse first, zoom and pan, legend and range below, and a read-out in a fixed place."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from rtviewer.gui.binding import follow, listen
from rtviewer.gui.gl import camera_control
from rtviewer.gui.panes.pane import STRIP_HEIGHT, Pane, PaneContext, label
from rtviewer.gui.panes.read_out import ReadOut
from rtviewer.gui.theme import Theme
from rtviewer.gui.widgets.legend_bar import LegendBar
from rtviewer.gui.widgets.range_bar import RangeBar
from rtviewer.gui.widgets.range_histogram import RangeHistogram
from rtviewer.scene.ray_sources import spec_of
from rtviewer.session.events import DocumentChanged, LogChanged, PictureChanged
from rtviewer.session.image import ImageBuffer
from rtviewer.session.state import RangeKind, State
from rtviewer.shade.modes import MODES, Shaded

RESIZE_MS = 120
"""The picture is traced anew this long after the last resize."""
EMPTY = "Nothing is open.\nOpen a mesh or scene (Ctrl+O), or drop a file on the window: its traced image appears here."


class TraceCanvas(pg.GraphicsLayoutWidget):
    """The picture in a view box; pixel (0, 0) is top left and one unit is one traced pixel."""

    resized = Signal()
    left = Signal()
    """The mouse left the picture."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Trace view")
        self.setMinimumSize(240, 180)
        self.ci.layout.setContentsMargins(0, 0, 0, 0)
        self.box = self.addViewBox(lockAspect=True, invertY=True, enableMenu=False, defaultPadding=0.0)
        self.image = pg.ImageItem(axisOrder="row-major")
        self.box.addItem(self.image)
        self.mark = pg.TargetItem(movable=False, size=13, symbol="crosshair")
        self.mark.setVisible(False)
        self.mark.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.box.addItem(self.mark)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.left.emit()

    def show_whole(self, width: int, height: int) -> None:
        self.box.setRange(xRange=(0, width), yRange=(0, height), padding=0.0)

    def pixel_at(self, position: QPointF, width: int, height: int) -> tuple[int, int] | None:
        """The picture's pixel at a scene position, None outside."""
        point = self.box.mapSceneToView(position + QPointF(0.5, 0.5))  # the middle of the screen pixel
        x, y = int(np.floor(point.x())), int(np.floor(point.y()))
        return (x, y) if 0 <= x < width and 0 <= y < height else None


class TraceView(Pane):
    name = "trace_view"
    title = "Trace view"

    def __init__(self, context: PaneContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.shown: Shaded | None = None
        self.shown_buffer: ImageBuffer | None = None
        self._whole_size: tuple[int, int] | None = None
        self.canvas = TraceCanvas()
        self.canvas.scene().sigMouseMoved.connect(self._hover)
        self.canvas.left.connect(lambda: self.read_out.show_pixel(self.shown_buffer, None))
        self.canvas.scene().sigMouseClicked.connect(self._clicked)
        self.empty = label(EMPTY, "empty", wrap=True)
        self.empty.setParent(self.canvas)
        self.caption = label("", "overlay")
        self.caption.setParent(self.canvas)
        self.caption.move(10, 10)
        self.caption.hide()
        self.read_out = ReadOut(context)
        """Stands below both views: the window places it."""
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.histogram = RangeHistogram(self.canvas)  # over the picture: a mode that has one must not move the views
        self.histogram.limits_dragged.connect(lambda low, high: self.session.set_range(RangeKind.FIXED, low, high))
        self.histogram.reset_asked.connect(self.automatic_range)
        column.addWidget(self.canvas, 1)
        column.addWidget(self._strip())
        self._resized = QTimer(self, singleShot=True, interval=RESIZE_MS)
        self._resized.timeout.connect(self._ask_for_size)
        self.canvas.resized.connect(self._canvas_resized)
        listen(
            self,
            self.session,
            {DocumentChanged: self._document_changed, PictureChanged: self._picture_changed, LogChanged: self._mark},
        )
        follow(self, self.session.store, {"image", "view"}, self._settings_changed)
        self._document_changed(None)
        self.follow_theme()

    def _strip(self) -> QFrame:
        strip = QFrame()
        strip.setProperty("role", "strip")
        strip.setFixedHeight(STRIP_HEIGHT)
        line = QHBoxLayout(strip)
        line.setContentsMargins(8, 3, 8, 3)
        line.setSpacing(6)
        self.legend = LegendBar()
        self.range_bar = RangeBar(self.session)
        line.addWidget(self.range_bar)
        line.addWidget(self.legend, 1)
        return strip

    def sizeHint(self) -> QSize:
        return QSize(560, 420)

    # The picture

    def _document_changed(self, event: DocumentChanged | None) -> None:
        is_open = self.session.document is not None
        self.empty.setVisible(not is_open)
        if event is None or not event.is_rebuild:
            self.shown = self.shown_buffer = None
            self.canvas.image.clear()
            self.canvas.mark.setVisible(False)
            self.read_out.show_pixel(None, None)
        self._settings_changed(self.session.state)
        if not is_open:
            self.histogram.show_shaded(None)
            self.legend.set_legend(None)
            self.caption.hide()

    def _picture_changed(self, event: PictureChanged) -> None:
        shaded, buffer = event.shaded, event.buffer
        self.shown, self.shown_buffer = shaded, buffer
        self.canvas.image.setImage(shaded.rgba, autoLevels=False, levels=None)
        if self._whole_size != (buffer.width, buffer.height):
            self._whole_size = (buffer.width, buffer.height)
            self.canvas.show_whole(buffer.width, buffer.height)
        rays = f"{spec_of(buffer.request.source).ray}s: " if buffer.receivers is not None else ""
        unit = f" ({shaded.mode.unit})" if shaded.mode.unit else ""
        self.caption.setText(f"{rays}{shaded.mode.label}{unit}")
        self.caption.setToolTip(shaded.mode.tooltip)
        self.caption.adjustSize()
        self.caption.show()
        self.legend.set_legend(shaded.legend)
        self.range_bar.show_shaded(shaded)
        self.histogram.show_shaded(shaded)
        self.read_out.picture_changed(buffer)
        self._mark(None)

    def show_whole(self) -> None:
        """Zoom so that the whole picture is seen."""
        if self._whole_size is not None:
            self.canvas.show_whole(*self._whole_size)

    # Settings

    def _settings_changed(self, state: State) -> None:
        has_range = MODES[state.image.mode].has_range
        has_histogram = has_range and state.view.show_histogram and self.session.document is not None
        self.range_bar.setVisible(has_range)
        self.histogram.setVisible(has_histogram)
        self.legend.setVisible(not has_histogram)  # the histogram's strip says the same, aligned with its bars

    def fit_range(self) -> None:
        """Fix the range at the ends that the picture shown uses."""
        self.range_bar.fix()

    def automatic_range(self) -> None:
        """The range of the picture's own values again."""
        self.session.set_range(RangeKind.AUTOMATIC)

    # Mouse

    def _hover(self, position: QPointF) -> None:
        buffer = self.shown_buffer
        if buffer is None:
            return
        pixel = self.canvas.pixel_at(position, buffer.width, buffer.height)
        self.read_out.show_pixel(buffer, pixel)

    def _clicked(self, event: object) -> None:
        buffer = self.shown_buffer
        if buffer is None or event.button() is not Qt.MouseButton.LeftButton:  # type: ignore[attr-defined]
            return
        if event.double():  # type: ignore[attr-defined]
            self.show_whole()
            return
        pixel = self.canvas.pixel_at(event.scenePos(), buffer.width, buffer.height)  # type: ignore[attr-defined]
        if pixel is not None:
            self.session.pick_pixel(*pixel, buffer.width, buffer.height)

    def _mark(self, _: LogChanged | None) -> None:
        """Stand on the picked pixel, or where the picture shows the hit of a ray that was pinned or typed."""
        pick, buffer, log = self.session.state.pick, self.shown_buffer, self.session.log
        place = None
        if pick is not None and buffer is not None:
            place = ((pick.x + 0.5) * buffer.width / pick.width, (pick.y + 0.5) * buffer.height / pick.height)
        elif log is not None and buffer is not None and log.result.hit:
            hit = np.asarray(log.origin) + log.result.t * np.asarray(log.direction)
            place = camera_control.pixel_of(buffer.camera, buffer.width, buffer.height, hit)
        self.canvas.mark.setVisible(place is not None)
        if place is not None:
            self.canvas.mark.setPos(*place)

    # Size

    def _canvas_resized(self) -> None:
        self._resized.start()
        self.empty.setGeometry(self.canvas.rect())
        height = self.histogram.height()
        self.histogram.setGeometry(0, self.canvas.height() - height, self.canvas.width(), height)

    def device_size(self) -> tuple[int, int]:
        """The canvas in device pixels."""
        ratio = self.canvas.devicePixelRatioF()
        return max(round(self.canvas.width() * ratio), 1), max(round(self.canvas.height() * ratio), 1)

    def _ask_for_size(self) -> None:
        if self.canvas.isVisible():
            self.session.set_image_size(*self.device_size())

    def retint(self, theme: Theme) -> None:
        self.canvas.setBackground(QColor(theme.view))
        self.canvas.mark.setPen(pg.mkPen(theme.accent, width=2))
        self.canvas.mark.setBrush(pg.mkBrush(None))
        self.histogram.retint(theme)
