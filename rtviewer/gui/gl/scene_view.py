"""The 3D widget: a camera of ours in place of pyqtgraph's, mouse and keys, overlay text, and items whose errors show.

Knows no session: it is told a camera and bounds, and says what the user did. Overlay text is child labels, because what
QPainter draws into a GL widget is lost in grabbed pictures.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyqtgraph.opengl as gl
from numpy.typing import NDArray
from OpenGL import GL
from PySide6.QtCore import QPoint, QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QLabel, QWidget

from rtviewer.gui.gl import camera_control
from rtviewer.gui.gl.item import SceneItem, link_program
from rtviewer.gui.theme import Theme
from rtviewer.scene.camera import Camera

CLICK_RADIUS = 4
"""Pixels the mouse may move between press and release and still click."""
SETTLE_MS = 400
"""Full quality comes back this long after the last camera move (software drawing only): the whole traced picture
comes first."""
MOST_HOLDS = 10
"""Times that drawing in full waits for something else."""
DEGREES_PER_PIXEL = 0.4
LONGEST_REST_MS = 120
"""While the camera moves, software drawing waits for the next traced picture, so that both cost one repainting of the
window, but no longer than this."""
SOFTWARE_RENDERERS = ("llvmpipe", "softpipe", "swiftshader", "software")


class SceneView(gl.GLViewWidget):
    """Emits ``camera_changed(Camera)`` while the user moves it, ``clicked(x, y, modifiers)`` in logical pixels,
    ``focus_asked(x, y)`` on double click, ``item_failed(item, error)``, ``settled()`` after a move, ``ready()`` when GL
    is there, ``moving_painted(seconds)`` after each frame that software drew while the camera moves."""

    camera_changed = Signal(object)
    clicked = Signal(float, float, object)
    focus_asked = Signal(float, float)
    item_failed = Signal(object, object)
    settled = Signal()
    moving_started = Signal()
    moving_painted = Signal(float)
    ready = Signal()
    renderer = ""
    is_moving = False

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.camera = Camera((3.0, 2.0, 4.0), (0.0, 0.0, 0.0))
        self.bounds: NDArray[np.float64] | None = None
        self._programs: dict[tuple[str, str], int] = {}
        self._pressed_at: QPointF | None = None
        self._last_at = QPointF()
        self._holds = 0
        self.must_hold: Callable[[], bool] = lambda: False
        """Whether something is on its way that drawing in full would delay."""
        self._dragged = False
        self._settle = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._settle.timeout.connect(self._finish_move)
        self._rest = QTimer(self, singleShot=True, interval=LONGEST_REST_MS)
        self._rest.timeout.connect(self.draw_now)
        self.setMinimumSize(240, 180)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Structure view")
        self.caption = self._label("overlay")
        self.counts = self._label("overlay")
        self.empty = self._label("empty")
        self.failure = self._label("refusal")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.failure.setWordWrap(True)
        self.failure.hide()
        self.item_failed.connect(self._show_failure)

    # What items ask.

    def program(self, vertex_shader: str, fragment_shader: str) -> int:
        """The linked program of two shader files, one per context."""
        key = (vertex_shader, fragment_shader)
        if key not in self._programs:
            self._programs[key] = link_program(*key)
        return self._programs[key]

    def world_to_view(self) -> NDArray[np.float32]:
        return camera_control.world_to_view(self.camera).astype(np.float32)

    def view_to_clip(self) -> NDArray[np.float32]:
        near, far = camera_control.clip_range(self.camera, self.bounds)
        return camera_control.view_to_clip(self.camera, self.aspect, near, far).astype(np.float32)

    def world_to_clip(self) -> NDArray[np.float32]:
        near, far = camera_control.clip_range(self.camera, self.bounds)
        clip = camera_control.view_to_clip(self.camera, self.aspect, near, far)
        return (clip @ camera_control.world_to_view(self.camera)).astype(np.float32)

    @property
    def aspect(self) -> float:
        return self.width() / max(self.height(), 1)

    def device_size(self) -> tuple[int, int]:
        return max(self.deviceWidth(), 1), max(self.deviceHeight(), 1)

    @property
    def is_software(self) -> bool:
        return any(name in self.renderer.lower() for name in SOFTWARE_RENDERERS)

    @property
    def errors(self) -> list[Exception]:
        """Draw errors of the last frame."""
        return [item.error for item in self.items if isinstance(item, SceneItem) and item.error is not None]

    # What the owner sets.

    def set_camera(self, camera: Camera) -> None:
        if camera != self.camera:
            self.camera = camera
            self.update()

    def set_theme(self, theme: Theme) -> None:
        self.setBackgroundColor(QColor(theme.view))

    def set_empty_text(self, text: str) -> None:
        self.empty.setText(text)
        self.empty.setVisible(bool(text))
        self._place_labels()

    def set_caption(self, text: str) -> None:
        if text == self.caption.text():
            return
        self.caption.setText(text)
        self.caption.setVisible(bool(text))
        self._place_labels()

    def set_counts(self, text: str) -> None:
        if text == self.counts.text():
            return  # a label over a GL widget has all of it painted anew
        self.counts.setText(text)
        self.counts.setVisible(bool(text))
        self._place_labels()

    def overlays(self) -> list[QLabel]:
        """Labels to draw over the framebuffer in a grabbed picture."""
        return [label for label in (self.caption, self.counts, self.empty, self.failure) if label.isVisible()]

    # When it is drawn.

    def update(self, *region: object) -> None:
        """Draw soon; while the camera moves in software, with the next ``draw_now``."""
        if not (self.is_moving and self.is_software):
            super().update(*region)
        elif not self._rest.isActive():
            self._rest.start()

    def draw_now(self) -> None:
        """Draw what waits to be drawn."""
        self._rest.stop()
        super().update()

    @property
    def is_waiting(self) -> bool:
        """Whether something waits to be drawn."""
        return self._rest.isActive()

    # GL.

    def paintGL(self) -> None:
        started = time.perf_counter()
        super().paintGL()
        if self.is_moving and self.is_software:
            GL.glFinish()
            self.moving_painted.emit(time.perf_counter() - started)

    def initializeGL(self) -> None:
        self._programs.clear()
        for item in self.items:
            if isinstance(item, SceneItem):
                item.context_lost()
        super().initializeGL()
        self.renderer = (GL.glGetString(GL.GL_RENDERER) or b"").decode(errors="replace")
        self.ready.emit()

    # Mouse and keys.

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pressed_at = self._last_at = event.position()
        self._dragged = False
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed_at is None or not event.buttons():
            return
        here = event.position()
        if not self._dragged and (here - self._pressed_at).manhattanLength() <= CLICK_RADIUS:
            return
        self._dragged = True
        step, self._last_at = here - self._last_at, here
        pans = event.buttons() & (Qt.MouseButton.MiddleButton | Qt.MouseButton.RightButton)
        pans = pans or event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if pans:
            height = max(self.height(), 1)
            self._move(camera_control.pan(self.camera, -step.x() / height, step.y() / height))
        else:
            self._move(camera_control.orbit(self.camera, step.x() * DEGREES_PER_PIXEL, step.y() * DEGREES_PER_PIXEL))
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        was_click = self._pressed_at is not None and not self._dragged
        self._pressed_at = None
        if was_click and event.button() is Qt.MouseButton.LeftButton:
            self.clicked.emit(event.position().x(), event.position().y(), event.modifiers())
        event.accept()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.focus_asked.emit(event.position().x(), event.position().y())
        event.accept()

    def wheelEvent(self, event: QWheelEvent) -> None:
        steps = event.angleDelta().y() / 120
        if steps:
            self._move(camera_control.zoom(self.camera, 0.88**steps))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        turns = {
            Qt.Key.Key_Left: (-5, 0), Qt.Key.Key_Right: (5, 0), Qt.Key.Key_Up: (0, 5), Qt.Key.Key_Down: (0, -5),
        }  # fmt: skip
        if event.key() in turns:
            self._move(camera_control.orbit(self.camera, *turns[event.key()]))
        elif event.key() in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self._move(camera_control.zoom(self.camera, 0.88))
        elif event.key() == Qt.Key.Key_Minus:
            self._move(camera_control.zoom(self.camera, 1 / 0.88))
        else:
            event.ignore()

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        event.ignore()

    def _move(self, camera: Camera) -> None:
        self.camera = camera
        self.stir()
        self.camera_changed.emit(camera)

    def stir(self) -> None:
        """Something moves: draw quickly until it comes to rest."""
        if not self.is_moving:
            self.is_moving = True
            self.moving_started.emit()
        self._holds = 0
        self._settle.start()
        self.update()

    def _finish_move(self) -> None:
        if self.is_software and self._holds < MOST_HOLDS and self.must_hold():
            self._holds += 1
            self._settle.start()
            return
        self.is_moving = False
        self._rest.stop()
        self.settled.emit()
        self.update()

    # Labels.

    def _label(self, role: str) -> QLabel:
        label = QLabel(self)
        label.setProperty("role", role)
        label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        return label

    def _show_failure(self, item: object, error: Exception) -> None:
        text = f"{type(item).__name__} cannot be drawn: {error}"
        if self.failure.text() == text and self.failure.isVisible():
            return  # placing labels repaints, which would fail and place them again
        self.failure.setText(text)
        self.failure.show()
        self._place_labels()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_labels()

    def _place_labels(self) -> None:
        margin = 10
        room = max(self.width() - 2 * margin, 40)
        for label in (self.caption, self.counts):
            label.setWordWrap(False)
            if label.sizeHint().width() > room:
                label.setWordWrap(True)
                label.resize(room, label.heightForWidth(room))
            else:
                label.adjustSize()
        self.caption.move(margin, margin)
        self.counts.move(margin, self.height() - self.counts.height() - margin)
        self.empty.setGeometry(self.rect())
        self.failure.setGeometry(margin, 40, max(self.width() - 2 * margin, 100), 60)
        for label in (self.caption, self.counts):
            label.raise_()

    def position_of(self, point: NDArray[np.float64]) -> QPoint | None:
        """Where a world point is drawn, in logical pixels; None behind the eye."""
        clip = self.world_to_clip().astype(np.float64) @ np.append(np.asarray(point, np.float64), 1.0)
        if clip[3] <= 0:
            return None
        x, y = clip[:2] / clip[3]
        return QPoint(round((x + 1) / 2 * self.width()), round((1 - y) / 2 * self.height()))
