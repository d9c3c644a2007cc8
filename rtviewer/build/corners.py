"""What indexed packs name: the index and vertex sections of a structure built with MINIMIZE_MEMORY."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel import layout
from rtviewer.accel.layout import SectionKind
from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.scene.primitives import transformed_vertices


class CornerTables:
    """INDICES and VERTICES of triangles: every vertex that one in the tree uses, once, in input order.

    Depends on indices and ``kept`` only, so an update fills the same rows with moved vertices. ``kept``: (n,) bool over
    all primitives, None for all. Indices are within their vertices (GEO-4).
    """

    def __init__(self, inputs: BlasInputs, kept: NDArray[np.bool_] | None) -> None:
        from rtviewer.kernels.corners import number_vertices

        self._geometries = [g for g in inputs.geometries if isinstance(g, TrianglesGeometry)]
        self._indices = [
            None if g.indices is None else np.ascontiguousarray(g.indices, np.uint32) for g in self._geometries
        ]
        self._kept = None if kept is None else np.ascontiguousarray(kept).view(np.uint8)
        self._numbers = [np.empty(len(g.vertices), np.int32) for g in self._geometries]
        self._used: list[int] = []
        self.index_count = sum(g.primitive_count for g in self._geometries)
        first = 0
        for k, geometry in enumerate(self._geometries):
            numbers = self._numbers[k]
            used = number_vertices(*self._inputs(k, first), len(numbers), numbers.ctypes.data)
            self._used.append(int(used))
            first += geometry.primitive_count
        self.vertex_count = sum(self._used)

    @property
    def sections(self) -> tuple[tuple[SectionKind, int], ...]:
        """Kinds and element counts."""
        return (SectionKind.INDICES, self.index_count), (SectionKind.VERTICES, self.vertex_count)

    def write(self, indices: NDArray[np.void], vertices: NDArray[np.void]) -> None:
        """Fill sections of ``index_count`` and ``vertex_count`` rows."""
        from rtviewer.kernels.corners import write_corners

        first = first_vertex = 0
        for k, geometry in enumerate(self._geometries):
            numbers = self._numbers[k]
            positions = np.ascontiguousarray(transformed_vertices(geometry), np.float32)
            write_corners(
                *self._inputs(k, first), positions.ctypes.data, len(numbers), numbers.ctypes.data, first_vertex,
                indices.ctypes.data + layout.TRIANGLE_INDICES.itemsize * first, vertices.ctypes.data,
            )  # fmt: skip
            first += geometry.primitive_count
            first_vertex += self._used[k]

    def _inputs(self, number: int, first: int) -> tuple[int, int, int]:
        """Addresses of a geometry's indices and of its part of ``kept``, and its triangles."""
        indices = self._indices[number]
        kept = 0 if self._kept is None else int(self._kept.ctypes.data) + first
        return 0 if indices is None else int(indices.ctypes.data), kept, self._geometries[number].primitive_count
