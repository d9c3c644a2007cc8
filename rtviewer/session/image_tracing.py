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
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.counters import Counter
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.errors import CancelledError, InvalidInputError
from rtviewer.scene.camera import Camera
from rtviewer.scene.ray_sources import CAMERA, ImageSource, resolved
from rtviewer.session.document import Cancelled, Progress, World
from rtviewer.session.image import ImageBuffer, ImageRequest, check_request
from rtviewer.session.primary_rays import camera_rays, trace_settings
from rtviewer.session.source_rays import Found, SourceTracer, receiver_settings
from rtviewer.session.state import RaySettings
from rtviewer.shade.picture import RECEIVER_FIELDS, Receivers
from rtviewer.trace.request import HIT_FIELDS, RayBatch, TraceResult

STEPS = (4, 2, 1)
TILE_POINTS = 64
"""A tile is this many lattice points wide and high: 4,096 rays in the first pass, 3,072 in the others. That is about
10 ms of one thread, which bounds how long a cancelled image keeps running."""
BLOCK_POINTS = 4
"""Rays of 4 x 4 neighbouring lattice points follow each other, as packets of 16 want."""
RECEIVER_PREFIX = "receiver."
"""Of the names of receivers' arrays among those of a picture in the making."""

_NO_RAYS = RayBatch.make(np.empty((0, 3)), np.empty((0, 3)))

OnPass = Callable[[ImageBuffer, float, bool], None]
"""Called after each pass with the picture so far, the fraction of pixels traced and whether it is complete."""


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
        if request.has_receivers:
            for name, dtype, missing, axes in RECEIVER_FIELDS:
                self.arrays[RECEIVER_PREFIX + name] = np.full((height, width, *axes), missing, dtype)
        self.valid = np.zeros((height, width), np.bool_)

    def store(
        self,
        columns: NDArray[np.int64],
        rows: NDArray[np.int64],
        result: TraceResult | Found,
        x_ray: NDArray[np.int32] | None,
    ) -> None:
        """Write the results of some pixels."""
        height, width = self.valid.shape
        pixel = rows * width + columns
        for name, _, _, axes in HIT_FIELDS:
            self.arrays[name].reshape(height * width, *axes)[pixel] = getattr(result.hits, name)
        if result.counters is not None:
            self.arrays["counters"].reshape(height * width, -1)[pixel] = result.counters
        if x_ray is not None:
            self.arrays["x_ray"].reshape(height * width, -1)[pixel] = x_ray
        if isinstance(result, Found):
            for name, _, _, axes in RECEIVER_FIELDS:
                self.arrays[RECEIVER_PREFIX + name].reshape(height * width, *axes)[pixel] = result.receivers[name]
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
        started = {name: arrays.pop(name) for name in list(arrays) if name.startswith(RECEIVER_PREFIX)}
        receivers = None
        if started:
            source = resolved(self.request.source, self.request.world.bounds)
            receivers = Receivers(source, **{name.removeprefix(RECEIVER_PREFIX): a for name, a in started.items()})
        return ImageBuffer(
            self.request, **arrays, counters=counters, x_ray=x_ray, valid=taken(self.valid),
            step=step, seconds=seconds, rays_traced=rays_traced, receivers=receivers,
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
        buffer = tracing.canvas.picture(step, seconds, tracing.rays_traced, is_last=is_last)
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
        self.rays_traced = 0
        self._dispatcher = request.world.dispatcher(request.profile)
        self._settings = trace_settings(request.rays, request.world.scene)
        self._x_ray = replace(self._settings, x_ray=True)
        self._source: SourceTracer | None = None
        if request.has_receivers:
            self._source = SourceTracer(request.world, request.source, request.rays, request.profile)
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
        ray_count = 0
        if len(columns):
            settings = request.rays if self._source is None else receiver_settings(request.rays)
            batch = camera_rays(request.camera, request.width, request.height, columns, rows, settings)
            try:
                result, x_ray = self._traced(batch, columns, rows)
            except InvalidInputError:
                self._raise_fault_of_pixel(batch, columns, rows)
                raise
            self.canvas.store(columns, rows, result, x_ray)
            ray_count = result.ray_count if isinstance(result, Found) else len(columns)
        if step > 1:
            self.canvas.spread(x, y, step)
        with self._lock:
            self.traced += len(columns)
            self.rays_traced += ray_count
            fraction = self.traced / self.total
        if self._on_progress is not None:
            self._on_progress(fraction)

    def _traced(
        self, batch: RayBatch, columns: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[TraceResult | Found, NDArray[np.int32] | None]:
        """What the rays of some pixels found, and the counters of their x-ray when it was asked for."""
        request = self.request
        if self._source is not None:
            found = self._source.trace(
                batch, columns, rows, counters=request.counters, x_ray=request.x_ray, cancelled=self._cancelled
            )  # fmt: skip
            return found, found.x_ray
        result = self._dispatcher.trace(batch, self._settings, counters=request.counters)
        through = self._dispatcher.trace(batch, self._x_ray, counters=True).counters if request.x_ray else None
        return result, through

    def _raise_fault_of_pixel(self, batch: RayBatch, columns: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Raise the hit-group fault (HG-4, TRAV-5) of the first of these pixels that has one, saying where it is."""
        for number in range(len(batch)):
            try:
                self._traced(batch.part(number, number + 1), *(a[number : number + 1] for a in (columns, rows)))
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
    source: ImageSource | None = None,
) -> ImageBuffer:
    """Trace a whole image of ``size`` (width, height) and wait for it: the same code as the window's, in one pass.

    ``threads``: None for one per processor. ``source``: whose rays, None for the camera's.
    """
    from rtviewer.session.jobs import default_threads

    request = ImageRequest(
        world, camera, *size, rays, counters, profile=profile, x_ray=x_ray, source=source or CAMERA
    )  # fmt: skip
    check_request(request)
    # No rays: loads the kernels, so that the picture's seconds are those of tracing.
    world.dispatcher(profile).trace(_NO_RAYS, trace_settings(rays), counters=counters)
    if x_ray:
        world.dispatcher(profile).trace(_NO_RAYS, trace_settings(rays), counters=True)
    count = threads or default_threads()
    say = (lambda fraction: progress(fraction, "tracing")) if progress else None
    with ThreadPoolExecutor(count, thread_name_prefix="trace") as pool:
        return trace_passes(request, pool, count, on_progress=say, cancelled=cancelled, steps=(1,))
