"""Where rays may start on a surface that was hit: the point, the normal's side, and how far off is far enough.

A ray that starts on a surface meets it again when rounding puts its origin behind it. As Waechter and Binder advise ("A
Fast and Robust Method for Avoiding Self-Intersection", Ray Tracing Gems, 2019), the point is taken from the triangle
and not from the ray, and moved along the normal by a multiple of what its coordinates are rounded by; never by a
constant. Their scale is the point's own coordinates. Here it is what the tracer's sums round by, seen along the normal
(``reach``): the ray's way to object space (terms of the inverse transform, component by component, as far as the normal
has them), the shear of corners there (the largest corner coordinate, in any direction), and the origin's own rounding
in the world.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import TrianglesGeometry
from rtviewer.scene.scene import Scene
from rtviewer.shade.normals import (
    BOX_ENTRY_KIND,
    HitPlaces,
    geometry_groups,
    inverse_linear,
    times,
    times_transposed,
    triangle_corners,
    world_normals,
)

OFFSET = 2.0**-19
"""Distance from the surface per unit of ``reach``: 32 roundings of float32. Sums of three or four terms in transform,
shear and edge functions are off by less than ten."""


class SurfacePoints(NamedTuple):
    """n hits in world space: ``point`` and unit ``normal`` on the side the ray came from, (n, 3) float64; ``reach``
    (n,) float64, magnitude of the terms that round, along the normal."""

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
    intersection: int | NDArray[np.int32],
) -> SurfacePoints:
    """Points, normals and reach of some hits; ``attributes`` (n, 2) as in Hits, ``intersection`` as in
    ``normals.world_normals``. Every row is computed by itself.

    A triangle's point comes from its barycentrics; a procedural's from the ray, put on the sphere or box that its hit
    kind tells of. Where a primitive has no normal it is the direction back along the ray.
    """
    world_to_object, row = inverse_linear(places.instance, transforms)
    linear = transforms[places.instance, :, :3].astype(np.float64)
    translation = transforms[places.instance, :, 3].astype(np.float64)
    direction = places.direction.astype(np.float64)
    point = places.origin.astype(np.float64) + places.t.astype(np.float64)[:, None] * direction
    extent = np.zeros_like(point)
    blas = blas_of_instance[places.instance]
    for (blas_index, geometry_index), rows in geometry_groups(blas, places.geometry):
        geometry = scene.blases[blas_index].geometries[geometry_index]
        if isinstance(geometry, TrianglesGeometry):
            corners = triangle_corners(geometry, places.primitive[rows])
            u, v = (attributes[rows, axis].astype(np.float64)[:, None] for axis in (0, 1))
            inside = corners[:, 0] + u * (corners[:, 1] - corners[:, 0]) + v * (corners[:, 2] - corners[:, 0])
            point[rows] = times(linear[rows], inside) + translation[rows]
            extent[rows] = np.abs(corners).max(1)
        else:
            boxes = geometry.aabbs[places.primitive[rows]].astype(np.float64)
            met = times(world_to_object[row[rows]], point[rows] - translation[rows])
            there = _on_surface(boxes, met, places.hit_kind[rows])
            moved = (there != met).any(axis=1)[:, None]
            point[rows] = np.where(moved, times(linear[rows], there) + translation[rows], point[rows])
            extent[rows] = np.maximum(np.abs(boxes[:, :3]), np.abs(boxes[:, 3:]))
    found = world_normals(places, scene, blas_of_instance, transforms, intersection).astype(np.float64)
    normal = _toward_viewer(found, direction)
    # A displacement e in object space moves the plane by (transposed object-to-world times normal) . e in the world.
    object_normal = np.abs(times_transposed(linear, normal))
    entering = times(np.abs(world_to_object[row]), np.abs(point) + np.abs(translation))
    reach = _dot(object_normal, entering + extent.max(1)[:, None]) + _dot(np.abs(normal), np.abs(point))
    return SurfacePoints(point, normal, reach)


SPHERE_KINDS = (0, 1, 64, 65)
NEAR_ENOUGH = 2.0**-8
"""Of a box's longest side: a point farther from the surface was reported by a program that means another one."""


def _on_surface(
    boxes: NDArray[np.float64], points: NDArray[np.float64], hit_kinds: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Object-space points of procedural hits, put exactly on what the built-in programs intersect (``dxr.programs``).

    t alone puts them off by what the way from the ray's origin rounds by, which may be far more than here.
    """
    low, high = boxes[:, :3], boxes[:, 3:]
    centre, sides = 0.5 * (low + high), high - low
    radius = 0.5 * sides.min(axis=1)[:, None]
    on_sphere = centre + _unit(points - centre) * radius
    axis = hit_kinds % 16
    is_box = (((hit_kinds >= BOX_ENTRY_KIND) & (hit_kinds < 48)) & (axis < 3))[:, None]
    on_box = np.where(np.abs(points - low) < np.abs(points - high), low, high)
    on_box = np.where(np.arange(3) == axis[:, None], on_box, points)
    is_sphere = np.isin(hit_kinds, SPHERE_KINDS)[:, None]
    there = np.where(is_sphere, on_sphere, np.where(is_box, on_box, points))
    is_near = (np.abs(there - points).max(axis=1) <= NEAR_ENOUGH * sides.max(axis=1))[:, None]
    return np.where(is_near, there, points)


def _toward_viewer(normal: NDArray[np.float64], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit normals turned against the ray; where there is none, or an area of nothing, straight back."""
    back = -_unit(direction)
    normal = np.where(np.all(np.isfinite(normal), axis=1, keepdims=True), normal, back)
    return _unit(normal * np.where(_dot(normal, direction) > 0, -1.0, 1.0)[:, None])


def _dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,): term by term, see ``normals.times``."""
    products: NDArray[np.float64] = a * b
    return products[:, 0] + products[:, 1] + products[:, 2]


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y, z = vectors.T
    length = np.sqrt(x * x + y * y + z * z)
    unit: NDArray[np.float64] = vectors / np.where(length > 0, length, 1.0)[:, None]
    return unit
