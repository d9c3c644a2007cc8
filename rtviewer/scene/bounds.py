"""World bounds of a scene, from referenced finite positions only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import BlasInputs, Geometry, TrianglesGeometry

if TYPE_CHECKING:
    from rtviewer.scene.scene import Scene

BATCH = 1 << 20
"""About so many transformed coordinates are held at once."""


def _referenced_points(geometry: Geometry) -> NDArray[np.float64]:
    """(n, 3) float64: positions that a primitive refers to and that are finite, with the geometry transform applied."""
    if not isinstance(geometry, TrianglesGeometry):
        with np.errstate(invalid="ignore"):
            points = geometry.aabbs.reshape(-1, 3).astype(np.float64)
    else:
        if geometry.indices is None:
            used = geometry.vertices[: geometry.primitive_count * 3]
        else:
            is_used = np.zeros(len(geometry.vertices), np.bool_)
            is_used[geometry.indices.ravel()] = True
            used = geometry.vertices[is_used]
        with np.errstate(invalid="ignore"):  # signalling NaN in the data
            points = used.astype(np.float64)
            if geometry.transform is not None:
                matrix = geometry.transform.astype(np.float64)
                points = points @ matrix[:, :3].T + matrix[:, 3]
    finite: NDArray[np.float64] = points[np.isfinite(points).all(axis=1)]
    return finite


def object_points(blas: BlasInputs) -> NDArray[np.float64]:
    """Referenced finite positions of all geometries, (n, 3) float64."""
    parts = [_referenced_points(g) for g in blas.geometries]
    return np.concatenate(parts) if parts else np.empty((0, 3))


def scene_bounds(scene: Scene) -> NDArray[np.float64] | None:
    """(2, 3) float64 minimum and maximum over all instances, or None when nothing finite is referenced.

    Instances with a transform that is not finite are left out.
    """
    placed: dict[int, list[NDArray[np.float32]]] = {}
    for instance in scene.instances:
        if instance.blas >= 0:
            placed.setdefault(instance.blas, []).append(instance.transform)
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for blas, transforms in placed.items():
        points = object_points(scene.blases[blas])
        matrices = np.stack(transforms).astype(np.float64)
        matrices = matrices[np.isfinite(matrices.reshape(-1, 12)).all(axis=1)]
        if not len(points) or not len(matrices):
            continue
        for world in _extents(points, matrices):
            low, high = np.minimum(low, world[0]), np.maximum(high, world[1])
    return np.stack([low, high]) if np.all(low <= high) else None


def _extents(points: NDArray[np.float64], matrices: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Minimum and maximum, (2, 3) each, of ``points`` under batches of ``matrices``."""
    count = max(1, BATCH // (3 * len(points)))
    extents = []
    for first in range(0, len(matrices), count):
        batch = matrices[first : first + count]
        rows = batch[:, :, :3].reshape(-1, 3) @ points.T  # one row per instance and axis
        low = rows.min(axis=1).reshape(-1, 3) + batch[:, :, 3]
        high = rows.max(axis=1).reshape(-1, 3) + batch[:, :, 3]
        extents.append(np.stack([low.min(axis=0), high.max(axis=0)]))
    return extents
