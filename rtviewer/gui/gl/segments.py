"""Lines of a width in pixels and round marks: highlighted boxes, rays and their candidates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from OpenGL import GL

from rtviewer.gui.gl.geometry import POINT_ROW, SEGMENT_ROW
from rtviewer.gui.gl.item import SceneItem


class SegmentsItem(SceneItem):
    """Draws SEGMENT_ROW rows. ``through``: draw over what lies in front instead of behind it."""

    vertex_shader = "segments.vert"

    def __init__(self, *, through: bool = False, depth_offset: float = 2e-5) -> None:
        super().__init__()
        self.rows: NDArray[np.void] = np.empty(0, SEGMENT_ROW)
        self._depth_offset = depth_offset
        self.setGLOptions("translucent")
        if through:
            self.updateGLOptions({GL.GL_DEPTH_TEST: False})

    def set_rows(self, rows: NDArray[np.void]) -> None:
        self.rows = rows
        self.upload("rows", rows)

    def draw(self) -> None:
        if not len(self.rows):
            return
        view = self.view()
        self.set_matrix("world_to_clip", view.world_to_clip())
        self.set_vector("viewport", *view.device_size())
        self.set_vector("pixel_ratio", view.devicePixelRatioF())
        self.set_vector("depth_offset", self._depth_offset)
        self.point_attributes("rows", [(0, 3, 0), (1, 3, 12), (2, 4, 24), (3, 1, 40)], SEGMENT_ROW.itemsize, 0, 1)
        GL.glDrawArraysInstanced(GL.GL_TRIANGLES, 0, 6, len(self.rows))


class PointsItem(SceneItem):
    """Draws POINT_ROW rows, always in front: a mark hidden by the surface it lies on would be no mark."""

    vertex_shader = "points.vert"
    fragment_shader = "points.frag"

    def __init__(self) -> None:
        super().__init__()
        self.rows: NDArray[np.void] = np.empty(0, POINT_ROW)
        self.rim = (0.0, 0.0, 0.0, 1.0)
        self.setGLOptions("translucent")
        self.updateGLOptions({GL.GL_DEPTH_TEST: False})

    def set_rows(self, rows: NDArray[np.void]) -> None:
        self.rows = rows
        self.upload("rows", rows)

    def draw(self) -> None:
        if not len(self.rows):
            return
        view = self.view()
        self.set_matrix("world_to_clip", view.world_to_clip())
        self.set_vector("viewport", *view.device_size())
        self.set_vector("pixel_ratio", view.devicePixelRatioF())
        self.set_vector("rim", *self.rim)
        self.point_attributes("rows", [(0, 3, 0), (1, 4, 12), (2, 1, 28)], POINT_ROW.itemsize, 0, 1)
        GL.glDrawArraysInstanced(GL.GL_TRIANGLES, 0, 6, len(self.rows))
