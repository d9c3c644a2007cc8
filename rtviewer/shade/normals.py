"""Geometric normals of hits in world space.

A normal goes from object to world space by the inverse transpose of the instance transform, so it keeps its side of the
surface under mirroring, as facing does (FACE-3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import AabbsGeometry, TrianglesGeometry
from rtviewer.dxr.programs import IntersectionChoice, IntersectionProgram
from rtviewer.dxr.shader_table import AS_GIVEN, HitGroupTable
from rtviewer.scene.primitives import transform_points
from rtviewer.scene.scene import Scene

BOX_ENTRY_KIND = 16
BOX_EXIT_KIND = 32
SPHERES = (IntersectionProgram.SPHERE, IntersectionProgram.SPHERE_FAR_FIRST)
RINGS = (IntersectionProgram.TORUS, IntersectionProgram.TORUS_FAR_FIRST)
BOXES = (IntersectionProgram.BOX,)


class HitPlaces(NamedTuple):
    """n hits: indices and hit kind (n,) int32; the world-space ray's origin and direction (n, 3) float32; t (n,)."""

    instance: NDArray[np.int32]
    geometry: NDArray[np.int32]
    primitive: NDArray[np.int32]
    hit_kind: NDArray[np.int32]
    origin: NDArray[np.float32]
    direction: NDArray[np.float32]
    t: NDArray[np.float32]

    def part(self, rows: NDArray[np.int64]) -> HitPlaces:
        return HitPlaces(
            self.instance[rows], self.geometry[rows], self.primitive[rows], self.hit_kind[rows],
            self.origin[rows], self.direction[rows], self.t[rows],
        )  # fmt: skip


def world_normals(
    places: HitPlaces,
    scene: Scene,
    blas_of_instance: NDArray[np.int32],
    transforms: NDArray[np.float32],
    intersection: int | NDArray[np.int32],
) -> NDArray[np.float32]:
    """(n, 3) float32 unit normals. Triangles: (v1-v0) x (v2-v0) in object space, then to the world.

    ``transforms`` (instances, 3, 4) float32. ``intersection``: the IntersectionProgram of all hits, or (n,) of each
    (``hit_programs``). Procedurals: of the surface that it reports; a hit without a surface faces the ray. NaN where
    the primitive has no area.
    """
    program = np.broadcast_to(np.asarray(intersection, np.int32), places.instance.shape)
    world_to_object, row = inverse_linear(places.instance, transforms)
    normals = np.empty((len(places.instance), 3), np.float64)
    blas = blas_of_instance[places.instance]
    for (blas_index, geometry_index), rows in geometry_groups(blas, places.geometry):
        geometry = scene.blases[blas_index].geometries[geometry_index]
        if isinstance(geometry, TrianglesGeometry):
            normals[rows] = _triangle_normals(triangle_corners(geometry, places.primitive[rows]))
        else:
            part, matrices = places.part(rows), world_to_object[row[rows]]
            normals[rows] = _procedural_normals(geometry, part, matrices, transforms, program[rows])
    # Columns of the inverse are rows of its transpose: n_world = n_object * W2O.
    with np.errstate(invalid="ignore", divide="ignore"):
        world = times_transposed(world_to_object[row], normals)
        x, y, z = world.T
        world /= np.sqrt(x * x + y * y + z * z)[:, None]
    unit: NDArray[np.float32] = world.astype(np.float32)
    return unit


def inverse_linear(
    instances: NDArray[np.int32], transforms: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Inverses (k, 3, 3) of the instances that occur, and for every hit which of them is its own."""
    unique, row = np.unique(instances, return_inverse=True)
    return np.linalg.inv(transforms[unique, :, :3].astype(np.float64)), row


def geometry_groups(
    blas: NDArray[np.int32], geometry: NDArray[np.int32]
) -> list[tuple[tuple[int, int], NDArray[np.int64]]]:
    """Rows of every (bottom level, geometry) that occurs."""
    if not len(blas):
        return []
    key = blas.astype(np.int64) << 32 | geometry
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    rows = np.split(order, starts[1:])
    return [((int(key[r[0]] >> 32), int(key[r[0]] & 0xFFFFFFFF)), r) for r in rows]


def times(matrices: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 3): each (3, 3) matrix times its vector, term by term. A sum of numpy's own may round a row otherwise when it
    stands alone, and a pixel's ray must not depend on what is traced beside it."""
    x, y, z = vectors[:, 0, None], vectors[:, 1, None], vectors[:, 2, None]
    return matrices[:, :, 0] * x + matrices[:, :, 1] * y + matrices[:, :, 2] * z


def times_transposed(matrices: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, 3): each transposed (3, 3) matrix times its vector, as :func:`times`."""
    return times(matrices.transpose(0, 2, 1), vectors)


def triangle_corners(geometry: TrianglesGeometry, primitive: NDArray[np.int32]) -> NDArray[np.float64]:
    """(n, 3, 3) object-space corners of some triangles after the geometry transform, as the structure holds them."""
    index = primitive.astype(np.int64)
    corner = index[:, None] * 3 + np.arange(3) if geometry.indices is None else geometry.indices[index]
    points = geometry.vertices[corner]
    if geometry.transform is not None:  # rounded as in the structure, so that a decoded structure has the same normals
        points = transform_points(geometry.transform, points.reshape(-1, 3)).reshape(-1, 3, 3)
    return points.astype(np.float64)


def _triangle_normals(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Object-space normals by the winding, which a geometry transform may have flipped (FACE-3)."""
    normals: NDArray[np.float64] = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return normals


USER_SHAPE = -1
"""In the place of an IntersectionProgram: a user's, whose surface is not known here."""


def hit_programs(
    table: HitGroupTable | None, hit_group_index: NDArray[np.int64], given: IntersectionChoice
) -> NDArray[np.int32]:
    """(n,) int32: the intersection program that reported each hit: its record's (HG-1), or ``given`` by the dispatch;
    USER_SHAPE for a user's.

    ``hit_group_index`` (n,): as in ``trace.request.Hits``; those of triangles have no meaning here.
    """
    programs = np.full(hit_group_index.shape, _built_in(given), np.int32)
    if table is None or not len(table.records):
        return programs
    place = np.clip(hit_group_index, 0, len(table.records) - 1) if table.stride else np.zeros_like(hit_group_index)
    own = np.array([_built_in(record.intersection) for record in table.records], np.int32)[place]
    return np.where(own == AS_GIVEN, programs, own)


def _built_in(program: int | str) -> int:
    return USER_SHAPE if isinstance(program, str) else int(program)


def _procedural_normals(
    geometry: AabbsGeometry,
    places: HitPlaces,
    world_to_object: NDArray[np.float64],
    transforms: NDArray[np.float32],
    program: NDArray[np.int32],
) -> NDArray[np.float64]:
    """Object-space normals of what the built-in intersection programs report, hit by hit."""
    # No surface: n * W2O shall be -direction, so n = -(O2W transposed) * direction.
    linear = transforms[places.instance, :, :3].astype(np.float64)
    normals = -times_transposed(linear, places.direction.astype(np.float64))
    for made_by, shape in ((SPHERES, _sphere_normals), (BOXES, _box_normals), (RINGS, _ring_normals)):
        rows = np.flatnonzero(np.isin(program, made_by))
        if len(rows):
            normals[rows] = shape(geometry, places.part(rows), world_to_object[rows], transforms)
    return normals


def _sphere_normals(
    geometry: AabbsGeometry,
    places: HitPlaces,
    world_to_object: NDArray[np.float64],
    transforms: NDArray[np.float32],
) -> NDArray[np.float64]:
    world_point = places.origin + places.t[:, None].astype(np.float64) * places.direction
    translation = transforms[places.instance, :, 3].astype(np.float64)
    point = times(world_to_object, world_point - translation)
    boxes = geometry.aabbs[places.primitive].astype(np.float64)
    offset: NDArray[np.float64] = point - 0.5 * (boxes[:, :3] + boxes[:, 3:])
    return offset


def _box_normals(
    _geometry: AabbsGeometry,
    places: HitPlaces,
    world_to_object: NDArray[np.float64],
    _transforms: NDArray[np.float32],
) -> NDArray[np.float64]:
    """The axis that the hit kind names, against the ray where it enters."""
    direction = times(world_to_object, places.direction.astype(np.float64))
    is_exit = places.hit_kind >= BOX_EXIT_KIND
    axis = np.clip(places.hit_kind - np.where(is_exit, BOX_EXIT_KIND, BOX_ENTRY_KIND), 0, 2)
    row = np.arange(len(axis))
    normals = np.zeros((len(axis), 3))
    normals[row, axis] = np.where(is_exit, 1.0, -1.0) * np.where(direction[row, axis] < 0, -1.0, 1.0)
    return normals


def _ring_normals(
    geometry: AabbsGeometry,
    places: HitPlaces,
    world_to_object: NDArray[np.float64],
    transforms: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Away from the nearest point of the ring's middle circle.

    The ring is the one that intersection TORUS reports: around the shortest side, the first on ties.
    """
    offset = _sphere_normals(geometry, places, world_to_object, transforms)
    boxes = geometry.aabbs[places.primitive].astype(np.float64)
    side = boxes[:, 3:] - boxes[:, :3]
    axis = np.argmin(side, axis=1)
    row = np.arange(len(axis))
    outer = 0.5 * np.where(np.arange(3) == axis[:, None], np.inf, side).min(axis=1)
    circle = outer - np.minimum(0.5 * side[row, axis], 0.25 * outer)
    flat = offset.copy()
    flat[row, axis] = 0.0
    x, y, z = flat.T
    with np.errstate(invalid="ignore", divide="ignore"):
        flat *= (circle / np.sqrt(x * x + y * y + z * z))[:, None]
    return offset - flat
