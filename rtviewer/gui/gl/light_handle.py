"""The light of shadow rays in the 3D view: a mark with a small cross that can be dragged across the view.

Watches the view's mouse events, so that the view itself knows nothing of lights.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QObject, QPointF, Qt, Signal
from PySide6.QtGui import QMouseEvent

from rtviewer.gui.gl.camera_control import world_height
from rtviewer.gui.gl.geometry import POINT_ROW, SEGMENT_ROW, point_rows, segment_rows
from rtviewer.gui.gl.scene_view import SceneView
from rtviewer.gui.gl.segments import PointsItem, SegmentsItem
from rtviewer.gui.theme import Theme, rgba
from rtviewer.scene.camera import Camera, Vector

GRAB_RADIUS = 12
"""Logical pixels around the mark where a press takes hold of it."""
MARK_SIZE = 10.0
CROSS = 0.04
"""Arms of the cross, of the picture's height at the light."""


def moved_across(camera: Camera, height: int, start: Vector, right: float, down: float) -> Vector:
    """``start`` moved by some pixels in the plane across the view; ``height`` is the view's, in the same pixels."""
    basis = camera.basis()
    per_pixel = height_at(camera, start) / max(height, 1)
    place = np.asarray(start, np.float64) + per_pixel * (right * basis[0] - down * basis[1])
    return float(place[0]), float(place[1]), float(place[2])


def height_at(camera: Camera, point: Vector) -> float:
    """Scene units that the picture is high at a point."""
    if camera.orthographic_height is not None:
        return world_height(camera)
    depth = float(np.subtract(point, camera.position, dtype=np.float64) @ camera.basis()[2])
    return 2 * abs(depth) * math.tan(math.radians(camera.vertical_fov) / 2)


class LightHandle(QObject):
    """``moved(position)`` while the user drags the mark. ``position`` is None when there is no light."""

    moved = Signal(object)

    def __init__(self, view: SceneView) -> None:
        super().__init__(view)
        self.view = view
        self.position: Vector | None = None
        self.mark = PointsItem()
        self.cross = SegmentsItem(through=True)
        self._colour = (1.0, 0.8, 0.2, 1.0)
        self._grabbed: tuple[Vector, QPointF] | None = None
        for item in (self.cross, self.mark):
            item.setDepthValue(60)
            view.addItem(item)
        view.setMouseTracking(True)
        view.camera_changed.connect(lambda _: self._draw())
        view.installEventFilter(self)

    def show_light(self, position: Vector | None) -> None:
        """Show the light there, or none."""
        self.position = position
        if position is None:
            self._grabbed = None
        self._draw()

    def set_theme(self, theme: Theme) -> None:
        self._colour = rgba(theme.warning)
        self.mark.rim = rgba(theme.view)
        self._draw()

    def _draw(self) -> None:
        if self.position is None:
            self.mark.set_rows(np.empty(0, POINT_ROW))
            self.cross.set_rows(np.empty(0, SEGMENT_ROW))
            return
        at = np.asarray(self.position, np.float64)
        arm = CROSS * height_at(self.view.camera, self.position)
        arms = [np.stack([at - arm * axis, at + arm * axis]).astype(np.float32) for axis in np.eye(3)]
        self.cross.set_rows(np.concatenate([segment_rows(line, self._colour, 2.0) for line in arms]))
        tints: NDArray[np.float32] = np.array([self._colour], np.float32)
        self.mark.set_rows(point_rows(at[None].astype(np.float32), tints, np.array([MARK_SIZE], np.float32)))

    def is_over(self, place: QPointF) -> bool:
        """Whether a place in the view is on the mark."""
        if self.position is None:
            return False
        drawn = self.view.position_of(np.asarray(self.position, np.float64))
        return drawn is not None and (QPointF(drawn) - place).manhattanLength() <= GRAB_RADIUS

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if self.position is None or not isinstance(event, QMouseEvent):
            return False
        kind, here = event.type(), event.position()
        if kind is QEvent.Type.MouseButtonPress and event.button() is Qt.MouseButton.LeftButton and self.is_over(here):
            self._grabbed = (self.position, here)
            return True
        if kind is QEvent.Type.MouseMove and self._grabbed is not None:
            start, pressed = self._grabbed
            step = here - pressed
            self.moved.emit(moved_across(self.view.camera, self.view.height(), start, step.x(), step.y()))
            return True
        if kind is QEvent.Type.MouseMove and not event.buttons():
            self._show_cursor(self.is_over(here))
        if kind is QEvent.Type.MouseButtonRelease and self._grabbed is not None:
            self._grabbed = None
            return True
        return kind is QEvent.Type.MouseButtonDblClick and self.is_over(here)

    def _show_cursor(self, over: bool) -> None:
        if over:
            self.view.setCursor(Qt.CursorShape.SizeAllCursor)
        else:
            self.view.unsetCursor()
