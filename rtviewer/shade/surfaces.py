"""Where rays may start on a surface that was hit: the point, the normal's side, and how far off is far enough.

A ray that starts on a surface meets it again when rounding puts its origin behind it. As Waechter and Binder advise ("A
Fast and Robust Method for Avoiding Self-Intersection", Ray Tracing Gems, 2019), the point is taken from the triangle
and not from the ray, and moved along the normal by a multiple of what its coordinates are rounded by; never by a
constant. Their scale is the point's own coordinates. Here it is the largest term of any sum that the hit came from,
because the tracer transforms rays to object space and shears triangles there: the corners' coordinates, the instance's
translation, and what the transform and its inverse make of both (``reach``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import TrianglesGeometry
from rtviewer.dxr.programs import IntersectionProgram
from rtviewer.scene.scene import Scene
from rtviewer.shade.normals import (
    HitPlaces,
    geometry_groups,
    inverse_linear,
    times,
    triangle_corners,
    world_normals,
)

OFFSET = 2.0**-19
"""Distance from the surface per unit of ``reach``: 32 roundings of float32. Sums of three terms in transform, shear and
edge functions are off by less than ten."""


class SurfacePoints(NamedTuple):
    """n hits in world space: ``point`` and unit ``normal`` on the side the ray came from, (n, 3) float64; ``reach``
    (n,) float64, largest magnitude that took part in computing the hit."""

    point: NDArray[np.float64]
    normal: NDArray[np.float64]
    reach: NDArray[np.float64]

    def origins(self) -> NDArray[np.float32]:
        """(n, 3) float32: ray origins on the normal's side, off the surface by ``OFFSET * reach``."""
        with np.errstate(over="ignore"):
            return (self.point + self.normal * (OFFSET * self.reach)[:, None]).astype(np.float32)


def surface_points(
    places: HitPlaces,
    attributes: NDArray[np.float32],
    scene: Scene,
    blas_of_instance: NDArray[np.int32],
    transforms: NDArray[np.float32],
    intersection: IntersectionProgram,
) -> SurfacePoints:
    """Points, normals and reach of some hits; ``attributes`` (n, 2) as in Hits. Every row is computed by itself.

    A triangle's point comes from its barycentrics, a procedural's from the ray. Where a primitive has no normal it is
    the direction back along the ray.
    """
    world_to_object, row = inverse_linear(places.instance, transforms)
    linear = transforms[places.instance, :, :3].astype(np.float64)
    translation = transforms[places.instance, :, 3].astype(np.float64)
    direction = places.direction.astype(np.float64)
    point = places.origin.astype(np.float64) + places.t.astype(np.float64)[:, None] * direction
    size = np.abs(point)
    blas = blas_of_instance[places.instance]
    for (blas_index, geometry_index), rows in geometry_groups(blas, places.geometry):
        geometry = scene.blases[blas_index].geometries[geometry_index]
        if isinstance(geometry, TrianglesGeometry):
            corners = triangle_corners(geometry, places.primitive[rows])
            u, v = (attributes[rows, axis].astype(np.float64)[:, None] for axis in (0, 1))
            inside = corners[:, 0] + u * (corners[:, 1] - corners[:, 0]) + v * (corners[:, 2] - corners[:, 0])
            point[rows] = times(linear[rows], inside) + translation[rows]
            extent = np.abs(corners).max(1)
        else:
            boxes = np.abs(geometry.aabbs[places.primitive[rows]].astype(np.float64))
            extent = np.maximum(boxes[:, :3], boxes[:, 3:])
        size[rows] = np.maximum(size[rows], times(np.abs(linear[rows]), extent))
    # A ray goes to object space and its hit means a place in the world again: both transforms round.
    there = times(np.abs(world_to_object[row]), size + np.abs(translation))
    reach = times(np.abs(linear), there).max(1)
    normal = world_normals(places, scene, blas_of_instance, transforms, intersection).astype(np.float64)
    return SurfacePoints(point, _toward_viewer(normal, direction), np.maximum(reach, size.max(1)))


def _toward_viewer(normal: NDArray[np.float64], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit normals turned against the ray; where there is none, or an area of nothing, straight back."""
    back = -_unit(direction)
    normal = np.where(np.all(np.isfinite(normal), axis=1, keepdims=True), normal, back)
    along = normal[:, 0] * direction[:, 0] + normal[:, 1] * direction[:, 1] + normal[:, 2] * direction[:, 2]
    return _unit(normal * np.where(along > 0, -1.0, 1.0)[:, None])


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y, z = vectors.T
    length = np.sqrt(x * x + y * y + z * z)
    unit: NDArray[np.float64] = vectors / np.where(length > 0, length, 1.0)[:, None]
    return unit
