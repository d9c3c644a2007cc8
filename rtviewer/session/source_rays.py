"""Rays of sources other than the camera: made from what camera rays hit, and traced.

All ray settings belong to the source's rays. The camera rays that find the receivers are plain: no ray flags, mask
0xFF, the whole interval; only programs and shader-table arguments are shared, so that a cut-out is a hole for both.

A source's ray starts off the surface on the camera's side (``shade.surfaces``). Its interval is the settings', ending
at the source's own end (the light; the radius). Its direction depends on pixel, sample and seed alone. Nothing depends
on which pixels are traced together, so tiles, threads and the log of one pixel agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_ray_interval, require
from rtviewer.errors import CancelledError, Violation
from rtviewer.scene.camera import Camera
from rtviewer.scene.ray_sources import CameraRays, DiffuseRays, ImageSource, OcclusionRays, ShadowRays, resolved
from rtviewer.scene.sampling import cosine_directions
from rtviewer.session.primary_rays import pixel_ray, trace_settings
from rtviewer.session.state import RaySettings
from rtviewer.shade.normals import HitPlaces, hit_programs
from rtviewer.shade.picture import RECEIVER_FIELDS, first_surfaces
from rtviewer.shade.surfaces import SurfacePoints, surface_points
from rtviewer.trace.request import HIT_FIELDS, Hits, RayBatch

if TYPE_CHECKING:
    from rtviewer.session.document import World

Pixels: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Found:
    """What a source's rays found, one row per pixel: ``hits``, ``counters`` as in TraceResult, ``x_ray`` the counters
    of their x-ray, ``receivers`` as arrays of ``RECEIVER_FIELDS``; ``ray_count``: rays traced in all, not counting
    x-rays. Rows without a ray are misses with counters of 0."""

    hits: Hits
    counters: NDArray[np.int32] | None
    x_ray: NDArray[np.int32] | None
    receivers: dict[str, NDArray[Any]]
    ray_count: int


def source_end(source: ImageSource) -> float:
    """TMax of a resolved source's rays."""
    if isinstance(source, ShadowRays):
        return 1.0
    if isinstance(source, OcclusionRays):
        assert source.radius is not None
        return source.radius
    return float("inf")


def source_settings(rays: RaySettings, source: ImageSource) -> RaySettings:
    """The settings that a resolved source's rays are traced with."""
    return replace(rays, t_max=min(rays.t_max, source_end(source)))


def receiver_settings(rays: RaySettings) -> RaySettings:
    """The settings of the camera rays that find receivers: plain but for programs and the shader table."""
    return replace(rays, ray_flags=RaySettings.ray_flags, mask=0xFF, t_min=0.0, t_max=float("inf"))


def check_source_interval(rays: RaySettings, source: ImageSource) -> list[Violation]:
    """RAY-2 and RAY-3 for the interval that a resolved source leaves of the settings'."""
    ended = source_settings(rays, source)
    return check_ray_interval(ended.t_min, ended.t_max)


def sample_count(source: ImageSource) -> int:
    """Rays that a source sends from every receiver."""
    return source.samples if isinstance(source, OcclusionRays) else 1


def shown_sample(source: ImageSource) -> int:
    """Which of them is the one that hits, counters and log are about."""
    return source.shown if isinstance(source, OcclusionRays) else 0


def _to_light(source: Any, points: SurfacePoints, origins: NDArray[np.float32], *_: Any) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return (np.array(source.light) - origins.astype(np.float64)).astype(np.float32)


def _about_normal(
    source: Any, points: SurfacePoints, _: NDArray[np.float32], columns: Pixels, rows: Pixels, sample: int
) -> NDArray[np.float32]:
    return cosine_directions(points.normal, columns, rows, source.seed, sample).astype(np.float32)


_DIRECTIONS: dict[type, Callable[..., NDArray[np.float32]]] = {
    ShadowRays: _to_light,
    DiffuseRays: _about_normal,
    OcclusionRays: _about_normal,
}


class SourceTracer:
    """Finds receivers and traces a source's rays from them; for one world, source and settings."""

    def __init__(
        self, world: World, source: ImageSource, rays: RaySettings, profile: Profile = DEFAULT_PROFILE
    ) -> None:
        self.source = resolved(source, world.bounds)
        self._world = world
        self._dispatcher = world.dispatcher(profile)
        self.rays = source_settings(rays, self.source)
        self._settings = trace_settings(self.rays, world.scene)
        self._through = replace(self._settings, x_ray=True)
        self._plain = trace_settings(receiver_settings(rays), world.scene)

    def trace(
        self,
        camera_rays: RayBatch,
        columns: Pixels,
        rows: Pixels,
        *,
        counters: bool = False,
        x_ray: bool = False,
        cancelled: Callable[[], bool] | None = None,
    ) -> Found:
        """Trace the source's rays of the pixels (columns[i], rows[i]), whose plain camera rays are ``camera_rays``.

        ``x_ray``: those that hits and counters are about once more, with nothing that ends them, and count.
        Raises what ``Dispatcher.trace`` raises, and CancelledError between samples.
        """
        seen = self._dispatcher.trace(camera_rays, self._plain).hits
        at = np.flatnonzero(seen.hit)
        points, surfaces = self._points(camera_rays, seen, at)
        origins = points.origins()
        shown = shown_sample(self.source)
        batch = self._batch(points, origins, columns[at], rows[at], shown)
        result = self._dispatcher.trace(batch, self._settings, counters=counters)
        through = self._dispatcher.trace(batch, self._through, counters=True).counters if x_ray else None
        missed = (~result.hits.hit).astype(np.int64)
        for sample in range(sample_count(self.source)):
            if sample == shown:
                continue
            if cancelled is not None and cancelled():
                raise CancelledError("the image was cancelled")
            others = self._batch(points, origins, columns[at], rows[at], sample)
            missed += ~self._dispatcher.trace(others, self._settings).hits.hit
        found = {
            "has_ray": np.ones(len(at), np.bool_), "origin": origins, "direction": batch.direction,
            "t_end": batch.t_max, "normal": points.normal, "surface_index": surfaces,
            "open_fraction": missed / sample_count(self.source),
        }  # fmt: skip
        count = len(camera_rays)
        spread = {name: _spread(found[name], at, count, *kind) for name, *kind in RECEIVER_FIELDS}
        counted, passed = (
            None if made is None else _spread(made, at, count, np.int32, 0, ()) for made in (result.counters, through)
        )
        ray_count = count + len(at) * sample_count(self.source)
        return Found(_spread_hits(result.hits, at, count), counted, passed, spread, ray_count)

    def ray(self, camera_ray: RayBatch, x: int, y: int) -> RayBatch | None:
        """The ray of the shown sample of one pixel; None when its camera ray hits nothing."""
        seen = self._dispatcher.trace(camera_ray, self._plain).hits
        if not seen.hit[0]:
            return None
        points, _ = self._points(camera_ray, seen, np.array([0]))
        return self._batch(points, points.origins(), np.array([x]), np.array([y]), shown_sample(self.source))

    def _points(self, rays: RayBatch, hits: Hits, at: Pixels) -> tuple[SurfacePoints, NDArray[np.int64]]:
        """Points of the hits in rows ``at``, and the numbers of their geometries counted over all bottom levels."""
        world = self._world
        places = HitPlaces(
            hits.instance_index[at], hits.geometry_index[at], hits.primitive_index[at], hits.hit_kind[at],
            rays.origin[at], rays.direction[at], hits.t[at],
        )  # fmt: skip
        transforms = world.tlas.instance_descs["Transform"]
        programs = hit_programs(world.scene.hit_groups, hits.hit_group_index[at], self.rays.intersection)
        points = surface_points(
            places, hits.attributes[at], world.scene, world.instance_blas, transforms, programs
        )  # fmt: skip
        first = first_surfaces(world.blases)
        return points, first[world.instance_blas[places.instance]] + places.geometry

    def _batch(
        self, points: SurfacePoints, origins: NDArray[np.float32], columns: Pixels, rows: Pixels, sample: int
    ) -> RayBatch:
        directions = _DIRECTIONS[type(self.source)](self.source, points, origins, columns, rows, sample)
        return RayBatch.make(origins.reshape(-1, 3), directions.reshape(-1, 3), self.rays.t_min, self.rays.t_max)


@dataclass(frozen=True, eq=False)
class PixelRay:
    """The ray that a pixel is about. ``batch`` of one ray, its ``settings``, ``source`` that sent it.

    ``note``: why it is the camera's although another source was asked for; empty otherwise.
    """

    batch: RayBatch
    settings: RaySettings
    source: ImageSource
    note: str = ""


def ray_of_pixel(
    world: World,
    camera: Camera,
    size: tuple[int, int],
    pixel: tuple[int, int],
    rays: RaySettings,
    source: ImageSource | None = None,
    *,
    camera_ray: bool = False,
    profile: Profile = DEFAULT_PROFILE,
) -> PixelRay:
    """The ray that the image of ``size`` traced for a pixel, bit for bit.

    ``camera_ray``: of another source, the plain camera ray that found its receiver; that one comes with a note, too,
    where it hits nothing. Raises RtviewerError for a pixel outside, InvalidInputError by RAY-2 for an empty interval.
    """
    if source is None or isinstance(source, CameraRays):
        return PixelRay(pixel_ray(camera, *size, *pixel, rays), rays, CameraRays())
    plain = receiver_settings(rays)
    first = pixel_ray(camera, *size, *pixel, plain)
    if camera_ray:
        return PixelRay(first, plain, CameraRays())
    tracer = SourceTracer(world, source, rays, profile)
    require(check_source_interval(rays, tracer.source), "ray")
    ray = tracer.ray(first, *pixel)
    if ray is None:
        return PixelRay(first, plain, CameraRays(), "the camera ray hits nothing, so no other ray starts there")
    return PixelRay(ray, tracer.rays, tracer.source)


def _spread(
    values: NDArray[Any], at: Pixels, count: int, dtype: Any, missing: Any, axes: tuple[int, ...]
) -> NDArray[Any]:
    """Rows ``at`` of ``count`` get ``values``, all others ``missing``."""
    spread = np.full((count, *values.shape[1:]), missing, dtype)
    spread[at] = values
    return spread


def _spread_hits(hits: Hits, at: Pixels, count: int) -> Hits:
    return Hits(**{name: _spread(getattr(hits, name), at, count, *kind) for name, *kind in HIT_FIELDS})
