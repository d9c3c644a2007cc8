"""The triangles of one bottom level, drawn once per instance: flat shaded, with wireframe, or wireframe alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from OpenGL import GL

from rtviewer.gui.gl.geometry import INSTANCE_ROW
from rtviewer.gui.gl.item import SceneItem
from rtviewer.gui.theme import rgba


class MeshItem(SceneItem):
    """``budget``: triangles drawn while the camera moves; the soup is mixed so that a part of it shows all of it."""

    vertex_shader = "mesh.vert"
    fragment_shader = "mesh.frag"

    def __init__(self) -> None:
        super().__init__()
        self.triangle_count = 0
        self.instance_count = 0
        self.fill = True
        self.wire = False
        self.wire_colour = rgba("#000000")
        self.budget: int | None = None
        self.setGLOptions("opaque")

    def set_mesh(self, soup: NDArray[np.float32]) -> None:
        """(n, 3, 3) float32: corners of n triangles in object space."""
        self.triangle_count = len(soup)
        self.upload("soup", soup)

    def set_instances(self, rows: NDArray[np.void]) -> None:
        """INSTANCE_ROW rows."""
        self.instance_count = len(rows)
        self.upload("instances", rows)

    def draw(self) -> None:
        if not (self.triangle_count and self.instance_count and (self.fill or self.wire)):
            return
        triangles, instances = self.triangle_count, self.instance_count
        if self.budget is not None and triangles * instances > self.budget:
            triangles = max(min(triangles, self.budget // instances), min(triangles, 12))
            instances = max(min(instances, self.budget // triangles), 1)
        view = self.view()
        self.set_matrix("world_to_view", view.world_to_view())
        self.set_matrix("view_to_clip", view.view_to_clip())
        self.set_switch("fill", self.fill)
        self.set_switch("wire", self.wire)
        self.set_vector("wire_colour", *self.wire_colour)
        self.set_vector("pixel_ratio", view.devicePixelRatioF())
        self.point_attributes("soup", [(0, 3, 0)], 12, 0, 0)
        fields = [(1, 4, 0), (2, 4, 16), (3, 4, 32), (4, 3, 48)]
        self.point_attributes("instances", fields, INSTANCE_ROW.itemsize, 0, 1)
        GL.glDrawArraysInstanced(GL.GL_TRIANGLES, 0, 3 * triangles, instances)
