"""The window as a picture: whole, with what GL drew, after a scene is open, its image complete and a ray logged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QObject, QPoint, QTimer
from PySide6.QtGui import QImage, QPainter, QPixmap, QRegion
from PySide6.QtWidgets import QWidget

from rtviewer.errors import RtviewerError
from rtviewer.gui.gl import camera_control
from rtviewer.session.document import DEFAULT_SIZE
from rtviewer.session.events import BlobChanged, JobEnded, Refusal
from rtviewer.session.image import ImageBuffer
from rtviewer.session.jobs import Lane
from rtviewer.session.state import Expected

if TYPE_CHECKING:
    from rtviewer.gui.main_window import MainWindow

POLL_MS = 50
QUIET_POLLS = 4
"""Everything must be at rest this many polls in a row: a resize asks for another image a moment later."""
TIMEOUT_SECONDS = 900
TURN_DEGREES = (24.0, 7.0)
"""The camera steps aside after the pick, so that the ray is seen from the side and not as a point."""


def grab_window(window: MainWindow) -> QPixmap:
    """The window as it looks now. ``QWidget.grab`` leaves GL views empty, so they are painted in at their place."""
    picture = window.grab()
    view = window.structure_view.view
    if not view.isVisible():
        return picture
    frame = view.grabFramebuffer()
    frame.setDevicePixelRatio(view.devicePixelRatioF())
    painter = QPainter(picture)
    painter.drawImage(view.mapTo(window, QPoint(0, 0)), frame)
    for overlay in view.overlays():
        painter.save()
        painter.translate(overlay.mapTo(window, QPoint(0, 0)))
        overlay.render(painter, QPoint(0, 0), QRegion(), QWidget.RenderFlag.DrawChildren)
        painter.restore()
    painter.end()
    return picture


def pixel_to_pick(buffer: ImageBuffer) -> tuple[int, int] | None:
    """The pixel nearest to the picture's centre whose ray hits something; None when none does."""
    rows, columns = np.nonzero(buffer.hit)
    if not len(rows):
        return None
    distance = (rows - buffer.height / 2) ** 2 + (columns - buffer.width / 2) ** 2
    nearest = int(np.argmin(distance))
    return int(columns[nearest]), int(rows[nearest])


def _require(refusal: Refusal | None) -> None:
    if refusal is not None:
        raise RtviewerError(refusal.text)


class Screenshot(QObject):
    """Waits, picks, waits, writes, closes the window. ``error`` is None when the file was written.

    ``pixel``: of a picture of DEFAULT_SIZE; None picks what hits nearest to the middle. ``step``: the event of the log
    to stand on; ``expected``: what to ask "why not this?" about.
    A file that turns out to be a blob of another driver has no image and no rays: its pane is drawn.
    """

    def __init__(
        self, window: MainWindow, path: Path, *, wants_scene: bool, pixel: tuple[int, int] | None = None,
        step: int | None = None, expected: Expected | None = None,
    ) -> None:  # fmt: skip
        super().__init__(window)
        self.error: Exception | None = RtviewerError("the window was closed before its picture was complete")
        self._window, self._path, self._wants_scene = window, path, wants_scene
        self._pixel, self._event, self._expected = pixel, step, expected
        self._steps = [self._pick, self._turn, self._step, self._write] if wants_scene else [self._write]
        self._quiet = 0
        self._timer = QTimer(self, interval=POLL_MS)
        self._timer.timeout.connect(self._poll)
        window.session.listen(self._on_event)

    def start(self) -> None:
        self._end = time.monotonic() + TIMEOUT_SECONDS
        self._timer.start()

    def _on_event(self, event: object) -> None:
        if isinstance(event, JobEnded) and event.error is not None and event.lane in (Lane.DOCUMENT, Lane.KERNELS):
            self._fail(event.error)
        elif isinstance(event, BlobChanged) and event.blob is not None:
            self._wants_scene, self._steps = False, [self._write]

    def _poll(self) -> None:
        if time.monotonic() > self._end:
            self._fail(RtviewerError(f"no complete picture after {TIMEOUT_SECONDS} seconds"))
            return
        self._quiet = self._quiet + 1 if self._is_at_rest() else 0
        if self._quiet >= QUIET_POLLS:
            self._quiet = 0
            try:
                self._steps.pop(0)()
            except Exception as error:
                self._fail(error)

    def _is_at_rest(self) -> bool:
        window = self._window
        if not window.is_settled:
            return False
        if not self._wants_scene:
            return True
        shown = window.trace_view.shown_buffer
        session = window.session
        return (
            session.world is not None
            and window.structure_view.content.prepared is not None
            and window.structure_view.content.prepared.world is session.world
            and shown is not None
            and shown.is_complete
            and shown.camera == session.state.camera
            and (shown.width, shown.height) == window.trace_view.device_size()
        )

    def _pick(self) -> None:
        session, buffer = self._window.session, self._window.trace_view.shown_buffer
        assert buffer is not None
        if self._pixel is not None:
            _require(session.pick_pixel(*self._pixel, *DEFAULT_SIZE))
            return
        pixel = pixel_to_pick(buffer)
        if pixel is not None:
            session.pick_pixel(*pixel, buffer.width, buffer.height)

    def _turn(self) -> None:
        window, session = self._window, self._window.session
        log = session.log
        if log is None:
            return
        result = log.result
        if result.hit:
            session.select(-1, -1, result.instance_index, result.geometry_index, result.primitive_index)
        window.structure_view.pin_ray()
        session.set_camera(camera_control.orbit(session.state.camera, *TURN_DEGREES))

    def _step(self) -> None:
        session, expected = self._window.session, self._expected
        if self._event is not None:
            _require(session.seek_log(self._event))
        if expected is not None:
            _require(session.expect(expected.instance, expected.geometry, expected.primitive))

    def _write(self) -> None:
        self._timer.stop()
        self._window.structure_view.content.draw_everything()
        image: QImage = grab_window(self._window).toImage()
        is_written = image.save(str(self._path))
        self.error = None if is_written else RtviewerError(f"cannot write {self._path}")
        self._window.close()

    def _fail(self, error: Exception) -> None:
        self._timer.stop()
        self.error = error
        self._window.close()
