"""Lines of a width in pixels and round marks: highlighted boxes, rays and their candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from OpenGL import GL

from rtviewer.gui.gl.geometry import POINT_ROW, SEGMENT_ROW
from rtviewer.gui.gl.item import SceneItem


class _RowsItem(SceneItem):
    """Draws one quad of constant size in pixels per row; subclasses say what a row is and set their own uniform."""

    row: np.dtype[Any]
    attributes: list[tuple[int, int, int]]
    """(location, components, byte offset in a row)."""

    def __init__(self, *, through: bool) -> None:
        super().__init__()
        self.rows: NDArray[np.void] = np.empty(0, self.row)
        self.setGLOptions("translucent")
        if through:
            self.updateGLOptions({GL.GL_DEPTH_TEST: False})

    def set_rows(self, rows: NDArray[np.void]) -> None:
        self.rows = rows
        self.upload("rows", rows)

    def set_own_uniforms(self) -> None:
        raise NotImplementedError

    def draw(self) -> None:
        if not len(self.rows):
            return
        view = self.view()
        self.set_matrix("world_to_clip", view.world_to_clip())
        self.set_vector("viewport", *view.device_size())
        self.set_vector("pixel_ratio", view.devicePixelRatioF())
        self.set_own_uniforms()
        self.point_attributes("rows", self.attributes, self.row.itemsize, 0, 1)
        GL.glDrawArraysInstanced(GL.GL_TRIANGLES, 0, 6, len(self.rows))


class SegmentsItem(_RowsItem):
    """Draws SEGMENT_ROW rows. ``through``: draw over what lies in front instead of behind it."""

    vertex_shader = "segments.vert"
    row = SEGMENT_ROW
    attributes = [(0, 3, 0), (1, 3, 12), (2, 4, 24), (3, 1, 40)]

    def __init__(self, *, through: bool = False, depth_offset: float = 2e-5) -> None:
        super().__init__(through=through)
        self._depth_offset = depth_offset

    def set_own_uniforms(self) -> None:
        self.set_vector("depth_offset", self._depth_offset)


class PointsItem(_RowsItem):
    """Draws POINT_ROW rows, always in front: a mark hidden by the surface it lies on would be no mark."""

    vertex_shader = "points.vert"
    fragment_shader = "points.frag"
    row = POINT_ROW
    attributes = [(0, 3, 0), (1, 4, 12), (2, 1, 28)]

    def __init__(self) -> None:
        super().__init__(through=True)
        self.rim = (0.0, 0.0, 0.0, 1.0)

    def set_own_uniforms(self) -> None:
        self.set_vector("rim", *self.rim)
