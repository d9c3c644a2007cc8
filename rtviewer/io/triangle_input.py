"""What every mesh reader does between parsing and the scene: fans, index range, NaN.

Readers pass on only legal input: out-of-range triangles are dropped (GEO-4), a NaN in y or z also makes x NaN so
that the triangle is inactive instead of undefined (INA-1, INA-3), infinities stay (INA-8). Each change is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import BlasInputs, TrianglesGeometry
from rtviewer.dxr.flags import GeometryFlag
from rtviewer.scene.scene import Instance, Scene

FaceName = Callable[[int], str]
"""Names the face a triangle came from, for a message: ``line 12``, ``face 3``."""

LISTED = 3
"""So many places are named in one warning; the rest is counted."""


def float32_positions(values: object) -> NDArray[np.float32]:
    """(n, 3) float32, C-contiguous and owned; numbers beyond float32 become infinities, each NaN the same quiet one."""
    with np.errstate(over="ignore", invalid="ignore"):
        positions = np.array(values, dtype=np.float32, order="C", copy=True).reshape(-1, 3)
    nan = np.isnan(positions)
    if nan.any():
        positions[nan] = np.nan  # a signalling NaN would raise a warning in every later computation
    return positions


def fan_triangles(
    corners: NDArray[np.int64], corner_counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split polygons as fans around their first corner, in order and with their winding.

    ``corners``: vertex numbers of all polygons one after another. Returns (m, 3) triangles and (m,) the polygon of
    each; polygons with fewer than three corners give none.
    """
    triangle_counts = np.maximum(corner_counts - 2, 0)
    polygon = np.repeat(np.arange(len(corner_counts)), triangle_counts)
    first_triangle = np.cumsum(triangle_counts) - triangle_counts
    first_corner = (np.cumsum(corner_counts) - corner_counts)[polygon]
    step = np.arange(len(polygon)) - first_triangle[polygon]
    triangles = np.stack(
        [corners[first_corner], corners[first_corner + step + 1], corners[first_corner + step + 2]], axis=1
    )
    return triangles.astype(np.int64).reshape(-1, 3), polygon


def places(names: Sequence[str]) -> str:
    """``a, b, c and 4 more``."""
    shown = ", ".join(names[:LISTED])
    return shown + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def keep_triangles_in_range(
    triangles: NDArray[np.int64], vertex_count: int, face_name: FaceName, warnings: list[str], where: str
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Drop triangles that name a vertex outside 0 to ``vertex_count`` - 1, with one warning [GEO-4].

    Returns (k, 3) uint32 and the positions (k,) in the input that were kept.
    """
    legal = ((triangles >= 0) & (triangles < vertex_count)).all(axis=1)
    dropped = np.flatnonzero(~legal)
    if len(dropped):
        named = places([face_name(int(index)) for index in dropped[: LISTED + 1]] + [""] * (len(dropped) - LISTED - 1))
        warnings.append(
            f"{where}: {len(dropped)} triangle(s) refer to a vertex that is not there (there are {vertex_count}) "
            f"and were dropped, later ones move up: {named} [GEO-4]"
        )
    kept = np.flatnonzero(legal)
    return np.ascontiguousarray(triangles[kept], np.uint32), kept


def deactivate_partial_nan(
    vertices: NDArray[np.float32],
    indices: NDArray[np.uint32] | None,
    face_name: FaceName,
    warnings: list[str],
    where: str,
) -> NDArray[np.float32]:
    """Give vertices with a NaN in y or z only a NaN x, with a warning that names the faces that use them.

    Rules INA-1 and INA-3.

    Infinities are left alone and mentioned once [INA-8]. Returns ``vertices`` itself when nothing changes, else a copy.
    """
    if np.isfinite(vertices).all():
        return vertices
    nan = np.isnan(vertices)
    partial = nan[:, 1:].any(axis=1) & ~nan[:, 0]
    corner_vertices = np.arange(len(vertices) // 3 * 3).reshape(-1, 3) if indices is None else indices.astype(np.int64)
    bad = np.flatnonzero(partial[corner_vertices].any(axis=1))
    if len(bad):
        named = []
        for triangle in bad[: LISTED + 1]:
            vertex = int(next(v for v in corner_vertices[triangle] if partial[v]))
            axis = "y" if nan[vertex, 1] else "z"
            named.append(f"{face_name(int(triangle))} ({axis} of vertex {vertex} is nan)")
        named += [""] * (len(bad) - LISTED - 1)
        warnings.append(
            f"{where}: {len(bad)} triangle(s) have a NaN outside x; x was made NaN too, so they are inactive: "
            f"{places(named)} [INA-1] [INA-3]"
        )
        vertices = vertices.copy()
        vertices[partial, 0] = np.nan
    infinite = np.isinf(vertices).any(axis=1) & ~np.isnan(vertices[:, 0])
    touched = int(infinite[corner_vertices].any(axis=1).sum())
    if touched:
        warnings.append(f"{where}: {touched} triangle(s) have an infinite coordinate and may never be hit [INA-8]")
    return vertices


def single_mesh_scene(geometry: TrianglesGeometry, name: str, source: str, warnings: list[str]) -> Scene:
    """The scene of a file that holds one mesh: one structure, placed once."""
    if not geometry.primitive_count:
        warnings.append(f"{Path(source).name}: the file has no triangles, so there is nothing to see")
    return Scene(
        name=name,
        blases=(BlasInputs((geometry,), name=name),),
        instances=(Instance(0, name=name),),
        warnings=tuple(warnings),
        source=source,
    )


def opaque_triangles(vertices: NDArray[np.float32], indices: NDArray[np.uint32] | None, name: str) -> TrianglesGeometry:
    """A geometry of a format that knows no transparency: OPAQUE (GF-2)."""
    return TrianglesGeometry(vertices, indices, flags=GeometryFlag.OPAQUE, name=name)
