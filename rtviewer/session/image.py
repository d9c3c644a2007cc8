"""A traced picture: what was asked for, what was found, and the questions one has about it.

``session.image_tracing`` makes pictures.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.counters import X_RAY_COUNTERS, Counter, XRayCounter
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_ray_flags, check_ray_interval, require
from rtviewer.errors import RtviewerError
from rtviewer.scene.camera import Camera
from rtviewer.scene.ray_sources import CAMERA, CameraRays, ImageSource, check_source, resolved
from rtviewer.session.document import World
from rtviewer.session.primary_rays import trace_settings
from rtviewer.session.source_rays import check_source_interval, ray_of_pixel
from rtviewer.session.state import ImageSettings, RaySettings
from rtviewer.shade.modes import Shaded, shade
from rtviewer.shade.picture import Picture, Receivers
from rtviewer.trace.request import HIT_FIELDS, Hits, TraceResult

if TYPE_CHECKING:
    from rtviewer.session.raylog import RayLog

MAX_PIXELS = 1 << 26
MAX_PIXELS_WITH_COUNTERS = 1 << 24
"""4096 x 4096: all counters of a pixel take 120 bytes more, and a copy of each is made; an x-ray takes them again."""


@dataclass(frozen=True, eq=False)
class ImageRequest:
    """Everything a picture depends on, fixed when it is asked for."""

    world: World
    camera: Camera
    width: int
    height: int
    rays: RaySettings
    counters: bool = False
    generation: int = 0
    profile: Profile = DEFAULT_PROFILE
    x_ray: bool = False
    """Trace every ray once more, with nothing that ends it, and count (``TraceSettings.x_ray``)."""
    source: ImageSource = CAMERA
    """Whose rays the picture is about; automatic parameters are allowed."""

    @property
    def has_receivers(self) -> bool:
        """Whether its rays start where camera rays hit."""
        return not isinstance(self.source, CameraRays)


@dataclass(frozen=True, eq=False)
class ImageBuffer:
    """A picture's hits: arrays (height, width) as in ``trace.request.Hits``; ``attributes`` has a last axis of 2.

    ``counters`` (height, width, len(Counter)) int32, or None when they were not asked for; likewise ``x_ray``, the
    counters of the x-ray. ``valid`` bool: the pixel was traced itself; where False it shows the nearest traced pixel
    up and left of it. ``receivers``: where the rays start, None for the camera's. The rest is the echo: what was asked
    (``request``), the ``step`` of the last pass, wall ``seconds`` since the request and ``rays_traced``.
    """

    request: ImageRequest
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
    valid: NDArray[np.bool_]
    step: int = 1
    seconds: float = 0.0
    rays_traced: int = 0
    x_ray: NDArray[np.int32] | None = None
    receivers: Receivers | None = None

    @property
    def width(self) -> int:
        return self.request.width

    @property
    def height(self) -> int:
        return self.request.height

    @property
    def world(self) -> World:
        return self.request.world

    @property
    def camera(self) -> Camera:
        return self.request.camera

    @property
    def rays(self) -> RaySettings:
        """The settings it was traced with: show these beside the picture, never the controls' values."""
        return self.request.rays

    @property
    def generation(self) -> int:
        return self.request.generation

    @property
    def is_complete(self) -> bool:
        return self.step == 1

    @property
    def rays_per_second(self) -> float:
        return self.rays_traced / self.seconds if self.seconds > 0 else 0.0

    def counter(self, counter: Counter) -> NDArray[np.int32]:
        """(height, width) int32 of one counter; RtviewerError when the picture was traced without counters."""
        if self.counters is None:
            raise RtviewerError("this picture was traced without counters")
        return self.counters[:, :, int(counter)]

    def x_ray_counter(self, counter: XRayCounter | str) -> NDArray[np.int32]:
        """(height, width) int32 of one x-ray counter, by its name such as ``surfaces``.

        RtviewerError when the picture was traced without an x-ray, or for an unknown name.
        """
        if self.x_ray is None:
            raise RtviewerError("this picture was traced without an x-ray")
        if isinstance(counter, str):
            by_name = {one.name: one for one in X_RAY_COUNTERS}
            if counter not in by_name:
                raise RtviewerError(f"no x-ray counter {counter!r}: there are {', '.join(by_name)}")
            counter = by_name[counter]
        total: NDArray[np.int32] = self.x_ray[:, :, [int(c) for c in counter.columns]].sum(-1, dtype=np.int32)
        return total

    def explain(self, pixel: tuple[int, int], *, camera_ray: bool = False) -> RayLog:
        """The log of a pixel's ray: the picture's own camera, size, source, settings and structures.

        ``camera_ray``: of another source, the camera ray that found where it starts.
        """
        from rtviewer.session.raylog import walk_pixel

        request = self.request
        return walk_pixel(
            request.world, request.camera, (request.width, request.height), pixel, request.rays, request.source,
            camera_ray=camera_ray, profile=request.profile,
        )  # fmt: skip

    def trace_pixel(self, pixel: tuple[int, int], *, x_ray: bool = False) -> TraceResult | None:
        """The pixel's ray once more, counting, as an x-ray on request (``TraceSettings.x_ray``).

        None where there is no ray because the camera sees nothing. Raises InvalidInputError by HG-4 and TRAV-5.
        """
        request = self.request
        size = (self.width, self.height)
        ray = ray_of_pixel(self.world, self.camera, size, pixel, self.rays, request.source, profile=request.profile)
        if ray.note:
            return None
        settings = replace(trace_settings(ray.settings, self.world.scene), x_ray=x_ray)
        return self.world.dispatcher(request.profile).trace(ray.batch, settings, counters=True)

    def save(self, path: Path | str, mode: str = "shaded", palette: str = "viridis", *, legend: bool = True) -> None:
        """Write it as .png, .exr or .npz: see ``session.picture_file.save_picture``."""
        from rtviewer.session.picture_file import save_picture

        save_picture(Path(path), self, ImageSettings(mode, palette), legend=legend)

    def picture(self) -> Picture:
        """The traced pixels as what ``shade.modes.shade`` colours; of a coarse picture only the lattice."""
        lattice = (slice(None, None, self.step), slice(None, None, self.step))
        return self._picture(
            {name: getattr(self, name)[lattice] for name, _, _, _ in HIT_FIELDS},
            None if self.counters is None else self.counters[lattice],
            None if self.x_ray is None else self.x_ray[lattice],
            None if self.receivers is None else self.receivers.part(lattice),
        )

    def _picture(
        self,
        hits: dict[str, Any],
        counters: NDArray[np.int32] | None,
        x_ray: NDArray[np.int32] | None,
        receivers: Receivers | None,
    ) -> Picture:
        world, rays = self.world, self.rays
        return Picture(
            world.scene, world.tlas, world.blases, world.instance_blas, self.camera, self.width, self.height,
            self.step, rays.ray_flags, rays.intersection, **hits, counters=counters, x_ray=x_ray, receivers=receivers,
        )  # fmt: skip

    def hits(self) -> Hits:
        """All pixels in row order as Hits of width * height rows (views)."""
        size = self.width * self.height
        columns = {name: getattr(self, name).reshape(size, *axes) for name, _, _, axes in HIT_FIELDS}
        return Hits(**columns)


def check_request(request: ImageRequest) -> None:
    """Refuse what cannot be traced: InvalidInputError by rules RF-* and RAY-*, RtviewerError for a useless size."""
    width, height = request.width, request.height
    arrays = int(request.counters) + int(request.x_ray)
    most = MAX_PIXELS_WITH_COUNTERS // arrays if arrays else MAX_PIXELS
    if width < 1 or height < 1 or width * height > most:
        counting = (" with counters" if request.counters else "") + (" with an x-ray" if request.x_ray else "")
        raise RtviewerError(f"cannot trace an image of {width} x {height}: 1 to {most:,} pixels are possible{counting}")
    if problem := check_source(request.source):
        raise RtviewerError(f"cannot trace: {problem}")
    found = check_ray_flags(request.rays.ray_flags, request.profile)
    interval = check_ray_interval(request.rays.t_min, request.rays.t_max)
    if request.has_receivers and not interval:
        interval = check_source_interval(request.rays, resolved(request.source, request.world.bounds))
    require([*found, *interval], "trace")


def shade_image(buffer: ImageBuffer, settings: ImageSettings, pool: Executor | None = None) -> Shaded:
    """Colour an image by mode, palette and range. Any thread may. RtviewerError when its counters are missing.

    ``pool``: see ``shade.modes.shade``.
    """
    picture = replace(buffer.picture(), closest_hit=settings.closest_hit, miss=settings.miss)
    return shade(
        picture,
        settings.mode,
        settings.palette,
        settings.range_kind,
        settings.range_low,
        settings.range_high,
        pool=pool,
    )
