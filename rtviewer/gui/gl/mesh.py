"""The triangles of one bottom level, drawn once per instance: flat shaded, with wireframe, or wireframe alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from OpenGL import GL

from rtviewer.gui.gl.geometry import INSTANCE_ROW, box_soup
from rtviewer.gui.gl.item import SceneItem
from rtviewer.gui.theme import rgba
from rtviewer.shade.palettes import SURFACE_COLOURS, encode_srgb, surface_colours


def _surface_tints() -> NDArray[np.float32]:
    """The trace view's tint of each geometry as a factor of the mesh's own colour; the brightest channel is 1."""
    tints = encode_srgb(surface_colours(np.arange(SURFACE_COLOURS))).astype(np.float32)
    return np.ascontiguousarray(tints / tints.max(1, keepdims=True))


class MeshItem(SceneItem):
    """``full_count``: instances drawn in full, the first ones; the others as solid boxes. None for all.

    ``budget``: triangles of one instance drawn while the camera moves; the soup is mixed, so a part shows all of it.
    """

    vertex_shader = "mesh.vert"
    fragment_shader = "mesh.frag"

    def __init__(self) -> None:
        super().__init__()
        self._soup: NDArray[np.float32] | None = None
        self._surfaces: NDArray[np.integer[Any]] | None = None
        self.triangle_count = 0
        self.instance_count = 0
        self.fill = True
        self.wire = False
        self.wire_colour = rgba("#000000")
        self.budget: int | None = None
        self.full_count: int | None = None
        self._box_triangles = 0
        self.setGLOptions("opaque")

    def set_mesh(self, soup: NDArray[np.float32], surfaces: NDArray[np.integer[Any]]) -> None:
        """(n, 3, 3) float32: corners of n triangles in object space; (n,) numbers of the geometries they belong to.

        What is drawn already is not uploaded again: nothing for the same arrays, corners alone when only they moved.
        """
        if soup is self._soup and surfaces is self._surfaces:
            return
        is_moved = self._surfaces is not None and np.array_equal(surfaces, self._surfaces)
        self._soup, self._surfaces = soup, surfaces
        self.triangle_count = len(soup)
        wrapped = (np.asarray(surfaces) % SURFACE_COLOURS).astype(np.float32)
        if not is_moved:
            self.upload("surfaces", wrapped.repeat(3))
        self.upload("soup", soup)
        low, high = (soup.min((0, 1)), soup.max((0, 1))) if len(soup) else (np.zeros(3), np.zeros(3))
        box = box_soup(low[None].astype(np.float32), high[None].astype(np.float32))
        self._box_triangles = len(box)
        self.upload("box_surfaces", np.full(3 * len(box), wrapped[0] if len(wrapped) else 0.0, np.float32))
        self.upload("box", box)

    def set_instances(self, rows: NDArray[np.void]) -> None:
        """INSTANCE_ROW rows."""
        self.instance_count = len(rows)
        self.upload("instances", rows)

    def draw(self) -> None:
        if not (self.triangle_count and self.instance_count and (self.fill or self.wire)):
            return
        in_full = self.instance_count if self.full_count is None else min(self.full_count, self.instance_count)
        triangles = self.triangle_count if self.budget is None else min(self.triangle_count, self.budget)
        view = self.view()
        self.set_matrix("world_to_view", view.world_to_view())
        self.set_matrix("view_to_clip", view.view_to_clip())
        self.set_switch("fill", self.fill)
        self.set_switch("wire", self.wire)
        self.set_vector("wire_colour", *self.wire_colour)
        self.set_vector("pixel_ratio", view.devicePixelRatioF())
        GL.glUniform3fv(self.location("surface_tints"), SURFACE_COLOURS, _surface_tints())
        self._draw("soup", "surfaces", triangles, 0, in_full)
        self._draw("box", "box_surfaces", self._box_triangles, in_full, self.instance_count)

    def _draw(self, corners: str, surfaces: str, triangles: int, first: int, last: int) -> None:
        if last <= first:
            return
        self.point_attributes(corners, [(0, 3, 0)], 12, 0, 0)
        self.point_attributes(surfaces, [(5, 1, 0)], 4, 0, 0)
        fields = [(1, 4, 0), (2, 4, 16), (3, 4, 32), (4, 3, 48)]
        self.point_attributes("instances", fields, INSTANCE_ROW.itemsize, first * INSTANCE_ROW.itemsize, 1)
        GL.glDrawArraysInstanced(GL.GL_TRIANGLES, 0, 3 * triangles, last - first)
