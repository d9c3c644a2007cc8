"""Tracing an image: coarse first, then finer, in tiles on a thread pool, cancelled between tiles.

Passes visit the lattices of step 4, 2 and 1; a pixel that an earlier pass traced is never traced again. After each pass
a buffer is handed on that is complete for display: pixels not traced yet show the traced pixel of their block. A buffer
that was handed on is never written again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.counters import X_RAY_COUNTERS, XRayCounter
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_ray_flags, check_ray_interval, require
from rtviewer.dxr.verdicts import Counter
from rtviewer.errors import CancelledError, InvalidInputError, RtviewerError
from rtviewer.scene.camera import Camera
from rtviewer.scene.scene import Scene
from rtviewer.session.document import Cancelled, Progress, World
from rtviewer.session.state import ImageSettings, RaySettings
from rtviewer.shade.modes import Shaded, shade
from rtviewer.shade.picture import Picture
from rtviewer.trace.request import Hits, RayBatch, TraceResult, TraceSettings

if TYPE_CHECKING:
    from rtviewer.session.raylog import RayLog

STEPS = (4, 2, 1)
TILE_POINTS = 64
"""A tile is this many lattice points wide and high: 4,096 rays in the first pass, 3,072 in the others. That is about
10 ms of one thread, which bounds how long a cancelled image keeps running."""
BLOCK_POINTS = 4
"""Rays of 4 x 4 neighbouring lattice points follow each other, as packets of 16 want."""
MAX_PIXELS = 1 << 26
MAX_PIXELS_WITH_COUNTERS = 1 << 24
"""4096 x 4096: all counters of a pixel take 120 bytes more, and a copy of each is made; an x-ray takes them again."""

_NO_RAYS = RayBatch.make(np.empty((0, 3)), np.empty((0, 3)))

OnPass = Callable[["ImageBuffer", float, bool], None]
"""Called after each pass with the picture so far, the fraction of pixels traced and whether it is complete."""


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


HIT_FIELDS: tuple[tuple[str, Any, Any, tuple[int, ...]], ...] = (
    ("hit", np.bool_, False, ()),
    ("t", np.float32, np.inf, ()),
    ("instance_index", np.int32, -1, ()),
    ("geometry_index", np.int32, -1, ()),
    ("primitive_index", np.int32, -1, ()),
    ("hit_kind", np.int32, -1, ()),
    ("instance_id", np.int64, -1, ()),
    ("attributes", np.float32, 0, (2,)),
    ("hit_group_index", np.int64, -1, ()),
    ("invalid", np.bool_, False, ()),
)
"""Fields of Hits: name, dtype, value where missed, axes after the pixel's."""


@dataclass(frozen=True, eq=False)
class ImageBuffer:
    """A picture's hits: arrays (height, width) as in ``trace.request.Hits``; ``attributes`` has a last axis of 2.

    ``counters`` (height, width, len(Counter)) int32, or None when they were not asked for; likewise ``x_ray``, the
    counters of the x-ray. ``valid`` bool: the pixel
    was traced itself; where False it shows the nearest traced pixel up and left of it. The rest is the echo: what was
    asked (``request``), the ``step`` of the last pass, wall ``seconds`` since the request and ``rays_traced``.
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

    def explain(self, pixel: tuple[int, int]) -> RayLog:
        """The log of a pixel's ray: the picture's own camera, size, settings and structures."""
        from rtviewer.session.raylog import walk_pixel

        request = self.request
        return walk_pixel(
            request.world, request.camera, (request.width, request.height), pixel, request.rays, profile=request.profile
        )

    def save(self, path: Path | str, mode: str = "shaded", palette: str = "viridis", *, legend: bool = True) -> None:
        """Write it as .png, .exr or .npz: see ``session.picture_file.save_picture``."""
        from rtviewer.session.picture_file import save_picture

        save_picture(Path(path), self, ImageSettings(mode, palette), legend=legend)

    def picture(self) -> Picture:
        """The traced pixels as what ``shade.modes.shade`` colours; of a coarse picture only the lattice."""
        lattice = (slice(None, None, self.step), slice(None, None, self.step))
        world, rays = self.world, self.rays
        return Picture(
            world.scene, world.tlas, world.blases, world.instance_blas, self.camera, self.width, self.height,
            self.step, rays.ray_flags, rays.intersection,
            **{name: getattr(self, name)[lattice] for name, _, _, _ in HIT_FIELDS},
            counters=None if self.counters is None else self.counters[lattice],
            x_ray=None if self.x_ray is None else self.x_ray[lattice],
        )  # fmt: skip

    def hits(self) -> Hits:
        """All pixels in row order as Hits of width * height rows (views)."""
        size = self.width * self.height
        columns = {name: getattr(self, name).reshape(size, *axes) for name, _, _, axes in HIT_FIELDS}
        return Hits(**columns)


class _Canvas:
    """The arrays being written, padded to whole blocks of the first step so that blocks can be filled by reshaping."""

    def __init__(self, request: ImageRequest) -> None:
        self.request = request
        height, width = (-(-n // STEPS[0]) * STEPS[0] for n in (request.height, request.width))
        self.arrays: dict[str, NDArray[Any]] = {
            name: np.full((height, width, *axes), missed, dtype) for name, dtype, missed, axes in HIT_FIELDS
        }
        if request.counters:
            self.arrays["counters"] = np.zeros((height, width, len(Counter)), np.int32)
        if request.x_ray:
            self.arrays["x_ray"] = np.zeros((height, width, len(Counter)), np.int32)
        self.valid = np.zeros((height, width), np.bool_)

    def store(
        self, columns: NDArray[np.int64], rows: NDArray[np.int64], result: TraceResult, x_ray: TraceResult | None
    ) -> None:
        """Write the results of some pixels."""
        height, width = self.valid.shape
        pixel = rows * width + columns
        for name, _, _, axes in HIT_FIELDS:
            self.arrays[name].reshape(height * width, *axes)[pixel] = getattr(result.hits, name)
        if result.counters is not None:
            self.arrays["counters"].reshape(height * width, -1)[pixel] = result.counters
        if x_ray is not None:
            self.arrays["x_ray"].reshape(height * width, -1)[pixel] = x_ray.counters
        self.valid.reshape(-1)[pixel] = True

    def spread(self, x: int, y: int, step: int) -> None:
        """Show, in the tile with corner (x, y), the traced pixel of every step x step block in the whole block."""
        height, width = self.valid.shape
        across = slice(x // step, x // step + TILE_POINTS)
        down = slice(y // step, y // step + TILE_POINTS)
        for array in self.arrays.values():
            blocks = array.reshape(height // step, step, width // step, step, *array.shape[2:])[down, :, across]
            blocks[...] = blocks[:, :1, :, :1]

    def picture(self, step: int, seconds: float, rays_traced: int, *, is_last: bool) -> ImageBuffer:
        """What there is now as an ImageBuffer; a copy unless nothing will be written any more."""
        window = (slice(0, self.request.height), slice(0, self.request.width))

        def taken(array: NDArray[Any]) -> NDArray[Any]:
            return np.ascontiguousarray(array[window]) if is_last else array[window].copy()

        arrays = {name: taken(array) for name, array in self.arrays.items()}
        counters, x_ray = arrays.pop("counters", None), arrays.pop("x_ray", None)
        return ImageBuffer(
            self.request, **arrays, counters=counters, x_ray=x_ray, valid=taken(self.valid),
            step=step, seconds=seconds, rays_traced=rays_traced,
        )  # fmt: skip


@lru_cache(maxsize=8)
def _pattern(step: int, is_first: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Columns and rows, relative to a tile's corner, of the pixels that a pass traces in it, in tracing order.

    The first pass traces every point of its lattice; a later one leaves out those of the lattice twice as coarse.
    """
    row, column = (a.ravel() for a in np.indices((TILE_POINTS, TILE_POINTS)))
    block = BLOCK_POINTS
    if is_first:
        order = np.lexsort([column % block, row % block, column // block, row // block])
    else:
        # What is left are three lattices of twice the step, each traced in blocks of its own.
        new = (column % 2 == 1) | (row % 2 == 1)
        column, row = column[new], row[new]
        across, down = column // 2, row // 2
        order = np.lexsort([across % block, down % block, column % 2, row % 2, across // block, down // block])
    return column[order] * step, row[order] * step


def _tiles(request: ImageRequest, step: int) -> list[tuple[int, int]]:
    """Corners (x, y) of the tiles of a pass, nearest to the picture's centre first: that is where the eye is."""
    size = TILE_POINTS * step
    corners = [(x, y) for y in range(0, request.height, size) for x in range(0, request.width, size)]
    centre = ((request.width - size) / 2, (request.height - size) / 2)
    return sorted(corners, key=lambda corner: (corner[0] - centre[0]) ** 2 + (corner[1] - centre[1]) ** 2)


def trace_settings(rays: RaySettings, scene: Scene | None = None) -> TraceSettings:
    """The settings of the pane as the dispatch takes them, with the scene's hit groups when it is given."""
    return TraceSettings(
        ray_flags=rays.ray_flags,
        mask=rays.mask,
        any_hit=int(rays.any_hit),
        intersection=int(rays.intersection),
        ray_contribution=rays.ray_contribution,
        multiplier=rays.multiplier,
        miss_index=rays.miss_index,
        hit_groups=scene.hit_groups if scene is not None else None,
    )


def check_request(request: ImageRequest) -> None:
    """Refuse what cannot be traced: InvalidInputError by rules RF-* and RAY-*, RtviewerError for a useless size."""
    width, height = request.width, request.height
    arrays = int(request.counters) + int(request.x_ray)
    most = MAX_PIXELS_WITH_COUNTERS // arrays if arrays else MAX_PIXELS
    if width < 1 or height < 1 or width * height > most:
        counting = (" with counters" if request.counters else "") + (" with an x-ray" if request.x_ray else "")
        raise RtviewerError(f"cannot trace an image of {width} x {height}: 1 to {most:,} pixels are possible{counting}")
    found = check_ray_flags(request.rays.ray_flags, request.profile)
    require([*found, *check_ray_interval(request.rays.t_min, request.rays.t_max)], "trace")


def camera_rays(
    camera: Camera, width: int, height: int, columns: NDArray[np.int64], rows: NDArray[np.int64], rays: RaySettings
) -> RayBatch:
    """The rays of some pixels of an image, with the settings' interval."""
    origin, direction = camera.rays(width, height, columns, rows)
    return RayBatch.make(origin, direction, rays.t_min, rays.t_max)


def pixel_ray(camera: Camera, width: int, height: int, x: int, y: int, rays: RaySettings | None = None) -> RayBatch:
    """The one ray through the centre of pixel (x, y); (0, 0) is top left."""
    if not (0 <= x < width and 0 <= y < height):
        raise RtviewerError(f"pixel {x},{y} is outside the {width} x {height} image")
    return camera_rays(camera, width, height, np.array([x]), np.array([y]), rays or RaySettings())


def trace_passes(
    request: ImageRequest,
    pool: ThreadPoolExecutor,
    threads: int,
    *,
    on_pass: OnPass | None = None,
    on_progress: Callable[[float], None] | None = None,
    cancelled: Cancelled | None = None,
    steps: tuple[int, ...] = STEPS,
) -> ImageBuffer:
    """Trace a picture pass by pass; returns the complete one.

    ``pool`` runs ``threads`` workers at a time; the calling thread only waits. The result does not depend on their
    number. Raises CancelledError, at most one tile's time after ``cancelled`` first answers True.
    """
    started = time.perf_counter()
    check_request(request)
    tracing = _Tracing(request, cancelled, on_progress)
    for step in steps:
        tracing.run_pass(pool, threads, step, is_first=step == steps[0])
        is_last = step == steps[-1]
        seconds = time.perf_counter() - started
        buffer = tracing.canvas.picture(step, seconds, tracing.traced, is_last=is_last)
        if on_pass is not None:
            on_pass(buffer, tracing.traced / tracing.total, is_last)
    return buffer


class _Tracing:
    """One picture on its way: the canvas, and what the workers share."""

    def __init__(
        self, request: ImageRequest, cancelled: Cancelled | None, on_progress: Callable[[float], None] | None
    ) -> None:
        self.request = request
        self.canvas = _Canvas(request)
        self.total = request.width * request.height
        self.traced = 0
        self._dispatcher = request.world.dispatcher(request.profile)
        self._settings = trace_settings(request.rays, request.world.scene)
        self._x_ray = replace(self._settings, x_ray=True)
        self._cancelled: Cancelled = cancelled or (lambda: False)
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run_pass(self, pool: ThreadPoolExecutor, threads: int, step: int, *, is_first: bool) -> None:
        """Trace one pass and wait. Raises CancelledError, or what a worker raised."""
        corners = iter(_tiles(self.request, step))
        futures = [pool.submit(self._work, corners, step, is_first) for _ in range(threads)]
        wait(futures)
        for future in futures:
            future.result()
        if self._stop.is_set() or self._cancelled():
            raise CancelledError("the image was cancelled")

    def _work(self, corners: Iterator[tuple[int, int]], step: int, is_first: bool) -> None:
        """One worker: take tiles until there are none, or someone stops."""
        try:
            while not self._stop.is_set():
                if self._cancelled():
                    self._stop.set()
                    return
                with self._lock:
                    corner = next(corners, None)
                if corner is None:
                    return
                self._trace_tile(*corner, step, is_first)
        except BaseException:
            self._stop.set()
            raise

    def _trace_tile(self, x: int, y: int, step: int, is_first: bool) -> None:
        request = self.request
        columns, rows = _pattern(step, is_first)
        columns, rows = columns + x, rows + y
        inside = (columns < request.width) & (rows < request.height)
        columns, rows = columns[inside], rows[inside]
        if len(columns):
            batch = camera_rays(request.camera, request.width, request.height, columns, rows, request.rays)
            try:
                result = self._dispatcher.trace(batch, self._settings, counters=request.counters)
                x_ray = self._dispatcher.trace(batch, self._x_ray, counters=True) if request.x_ray else None
            except InvalidInputError:
                self._raise_fault_of_pixel(batch, columns, rows)
                raise
            self.canvas.store(columns, rows, result, x_ray)
        if step > 1:
            self.canvas.spread(x, y, step)
        with self._lock:
            self.traced += len(columns)
            fraction = self.traced / self.total
        if self._on_progress is not None:
            self._on_progress(fraction)

    def _raise_fault_of_pixel(self, batch: RayBatch, columns: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Raise the hit-group fault (HG-4, TRAV-5) of the first of these pixels that has one, saying where it is."""
        for number in range(len(batch)):
            try:
                one = batch.part(number, number + 1)
                self._dispatcher.trace(one, self._settings)
                if self.request.x_ray:  # it comes to records that the ray itself ends before
                    self._dispatcher.trace(one, self._x_ray, counters=True)
            except InvalidInputError as error:
                place = f"pixel {columns[number]},{rows[number]}: "
                found = [replace(v, message=place + v.message.removeprefix("ray 0: ")) for v in error.violations]
                raise InvalidInputError(found, error.call) from None


def trace_image(
    world: World,
    camera: Camera,
    size: tuple[int, int],
    rays: RaySettings,
    *,
    counters: bool = False,
    x_ray: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    profile: Profile = DEFAULT_PROFILE,
) -> ImageBuffer:
    """Trace a whole image of ``size`` (width, height) and wait for it: the same code as the window's, in one pass.

    ``threads``: None for one per processor.
    """
    from rtviewer.session.jobs import default_threads

    request = ImageRequest(world, camera, *size, rays, counters, profile=profile, x_ray=x_ray)
    check_request(request)
    # No rays: loads the kernels, so that the picture's seconds are those of tracing.
    world.dispatcher(profile).trace(_NO_RAYS, trace_settings(rays), counters=counters)
    if x_ray:
        world.dispatcher(profile).trace(_NO_RAYS, trace_settings(rays), counters=True)
    count = threads or default_threads()
    say = (lambda fraction: progress(fraction, "tracing")) if progress else None
    with ThreadPoolExecutor(count, thread_name_prefix="trace") as pool:
        return trace_passes(request, pool, count, on_progress=say, cancelled=cancelled, steps=(1,))


def shade_image(buffer: ImageBuffer, settings: ImageSettings) -> Shaded:
    """Colour an image by mode, palette and range. Any thread may. RtviewerError when its counters are missing."""
    return shade(
        buffer.picture(), settings.mode, settings.palette, settings.range_kind, settings.range_low, settings.range_high
    )
