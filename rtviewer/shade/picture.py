"""What a mode colours: the hits of an image (or of some of its pixels), its rays, and the structures they met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import InstanceFlag, RayFlag
from rtviewer.dxr.programs import IntersectionChoice
from rtviewer.dxr.rules import runs_closest_hit
from rtviewer.scene.camera import Camera
from rtviewer.scene.ray_sources import ImageSource
from rtviewer.scene.scene import Scene
from rtviewer.shade.normals import HitPlaces, hit_programs, world_normals


def first_surfaces(blases: Sequence[Structure]) -> NDArray[np.int64]:
    """(blases + 1,) int64: number of the first geometry of each bottom level, counted over all; then how many."""
    counts = [0, *(len(structure.geometries) for structure in blases)]
    return np.cumsum(counts, dtype=np.int64)


RECEIVER_FIELDS: tuple[tuple[str, Any, Any, tuple[int, ...]], ...] = (
    ("has_ray", np.bool_, False, ()),
    ("origin", np.float32, 0, (3,)),
    ("direction", np.float32, 0, (3,)),
    ("t_end", np.float32, np.inf, ()),
    ("normal", np.float32, 0, (3,)),
    ("surface_index", np.int64, -1, ()),
    ("open_fraction", np.float32, np.nan, ()),
)
"""Fields of Receivers: name, dtype, value where the camera sees nothing, axes after the pixel's."""


@dataclass(frozen=True, eq=False)
class Receivers:
    """Where the rays of a picture start that are not the camera's own; arrays (rows, columns).

    ``has_ray``: the camera ray hit something, so there is a ray. ``origin`` and ``direction`` (rows, columns, 3)
    float32 of that ray, ``t_end`` its TMax. ``normal`` (rows, columns, 3), ``surface_index``: of what the camera sees,
    the normal on the camera's side. ``open_fraction``: of all the pixel's rays those that met nothing, NaN without
    rays.
    """

    source: ImageSource
    has_ray: NDArray[np.bool_]
    origin: NDArray[np.float32]
    direction: NDArray[np.float32]
    t_end: NDArray[np.float32]
    normal: NDArray[np.float32]
    surface_index: NDArray[np.int64]
    open_fraction: NDArray[np.float32]

    def part(self, window: tuple[slice, ...]) -> Receivers:
        """Some rows and columns (views)."""
        return Receivers(self.source, **{name: getattr(self, name)[window] for name, _, _, _ in RECEIVER_FIELDS})


HIT_NAMES = (
    "hit", "t", "instance_index", "geometry_index", "primitive_index", "hit_kind", "instance_id", "attributes",
    "hit_group_index", "invalid",
)  # fmt: skip
"""Fields of a Picture that are those of ``trace.request.Hits``."""


@dataclass(frozen=True, eq=False)
class Picture:
    """Hits of every ``step``-th pixel in x and y of a ``width`` x ``height`` image.

    Arrays (rows, columns) as in ``trace.request.Hits``; ``attributes`` (rows, columns, 2); ``counters`` (rows, columns,
    len(Counter)) int32 or None, and likewise ``x_ray``, the counters of what lies along the whole ray.
    ``blas_of_instance`` (instances,) int32 index into ``blases``, -1 for none.
    """

    scene: Scene
    tlas: Structure
    blases: tuple[Structure, ...]
    blas_of_instance: NDArray[np.int32]
    camera: Camera
    width: int
    height: int
    step: int
    ray_flags: RayFlag
    intersection: IntersectionChoice
    hit: NDArray[np.bool_]
    t: NDArray[np.float32]
    instance_index: NDArray[np.int32]
    geometry_index: NDArray[np.int32]
    primitive_index: NDArray[np.int32]
    hit_kind: NDArray[np.int32]
    instance_id: NDArray[np.int64]
    attributes: NDArray[np.float32]
    hit_group_index: NDArray[np.int64]
    invalid: NDArray[np.bool_]
    counters: NDArray[np.int32] | None
    x_ray: NDArray[np.int32] | None = None
    receivers: Receivers | None = None
    """Where the rays start, None for the camera's own."""
    closest_hit: str = "lambert"
    """Names of the shadings (``shadings``) that stand for the closest-hit and the miss shader."""
    miss: str = "sky"
    first_row: int = 0
    """Of the arrays: where they stand among the rows of the whole picture."""

    def band(self, first: int, last: int) -> Picture:
        """Some of its rows, for shadings that go by the pixel; without counters and receivers."""
        rows: dict[str, Any] = {name: getattr(self, name)[first:last] for name in HIT_NAMES}
        return replace(self, **rows, counters=None, x_ray=None, receivers=None, first_row=self.first_row + first)

    @cached_property
    def has_closest_hit(self) -> NDArray[np.bool_]:
        """(rows, columns) bool: whether a closest-hit shader runs for the hit; False where missed."""
        table = self.scene.hit_groups
        runs: NDArray[np.bool_] = self.hit & runs_closest_hit(self.ray_flags, True)
        if table is None or not table.records or not runs.any():
            return runs
        has = np.array([runs_closest_hit(self.ray_flags, record.closest_hit) for record in table.records])
        place = np.minimum(np.maximum(self.hit_group_index, 0), len(has) - 1) * (1 if table.stride else 0)
        return np.asarray(runs & has[place], np.bool_)

    @cached_property
    def rays(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Origins and directions, each (rows, columns, 3) float32; for shading, so not rounded as the traced rays."""
        if self.receivers is not None:
            return self.receivers.origin, self.receivers.direction
        rows, columns = self.hit.shape
        right, up, forward = self.camera.basis().astype(np.float32)
        x = (2.0 * (np.arange(columns) * self.step + 0.5) / self.width - 1.0) * (self.width / self.height)
        y = 1.0 - 2.0 * ((np.arange(rows) + self.first_row) * self.step + 0.5) / self.height
        if self.camera.orthographic_height is not None:
            half = 0.5 * self.camera.orthographic_height
        else:
            half = float(np.tan(np.radians(self.camera.vertical_fov) / 2))
        across = np.float32(half) * x.astype(np.float32)[None, :, None] * right
        offset = across + np.float32(half) * y.astype(np.float32)[:, None, None] * up
        position = np.asarray(self.camera.position, np.float32)
        if self.camera.orthographic_height is not None:
            return position + offset, np.broadcast_to(forward, offset.shape)
        direction = offset + forward
        direction /= np.sqrt(np.einsum("ijk,ijk->ij", direction, direction))[..., None]
        return np.broadcast_to(position, direction.shape), direction

    @cached_property
    def first_surface(self) -> NDArray[np.int64]:
        """(blases + 1,) int64: number of the first geometry of each bottom level, counted over all of them."""
        return first_surfaces(self.blases)

    @cached_property
    def surface_index(self) -> NDArray[np.int64]:
        """(rows, columns) int64: number of the geometry hit, counted over all bottom levels; -1 where missed."""
        surface = np.full(self.hit.shape, -1, np.int64)
        blas = self.blas_of_instance[self.instance_index[self.hit]]
        surface[self.hit] = self.first_surface[blas] + self.geometry_index[self.hit]
        return surface

    @cached_property
    def normals(self) -> NDArray[np.float32]:
        """(rows, columns, 3) float32: unit geometric normals in world space, on the front's side; NaN where missed."""
        normals = np.full((*self.hit.shape, 3), np.nan, np.float32)
        hit = np.flatnonzero(self.hit)
        if not len(hit):
            return normals
        origin, direction = self.rays
        instance, geometry, primitive, kind = (
            array.reshape(-1)[hit]
            for array in (self.instance_index, self.geometry_index, self.primitive_index, self.hit_kind)
        )
        places = HitPlaces(
            instance, geometry, primitive, kind, origin.reshape(-1, 3)[hit], direction.reshape(-1, 3)[hit],
            self.t.reshape(-1)[hit],
        )  # fmt: skip
        transforms = self.tlas.instance_descs["Transform"]
        programs = hit_programs(self.scene.hit_groups, self.hit_group_index.reshape(-1)[hit], self.intersection)
        normals.reshape(-1, 3)[hit] = world_normals(places, self.scene, self.blas_of_instance, transforms, programs)
        return normals

    @cached_property
    def instance_flags(self) -> NDArray[np.uint8]:
        """(instances,) uint8 InstanceFlag words."""
        words = self.tlas.instance_descs["InstanceContributionAndFlags"] >> 24
        return (words & sum(InstanceFlag)).astype(np.uint8)
