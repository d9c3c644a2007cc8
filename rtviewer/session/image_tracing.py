"""Tracing an image: coarse first, then finer, in tiles on a thread pool, cancelled between tiles.

A pass visits the lattice of its step. One that halves the step keeps what the pass before it traced; one that quarters
it traces everything anew, because whole blocks of 16 neighbours are worth more than the sixteenth saved. After each
pass a buffer is handed on that is complete for display: pixels not traced yet show the traced pixel of their block. A
buffer that was handed on is never written again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.errors import CancelledError, InvalidInputError
from rtviewer.scene.camera import Camera
from rtviewer.scene.ray_sources import CAMERA, ImageSource
from rtviewer.session.document import Cancelled, Progress, World
from rtviewer.session.image import ImageBuffer, ImageRequest, check_request
from rtviewer.session.lattice import TILE_POINTS, Lattice, Tile, tiles
from rtviewer.session.pace import FIRST_SECONDS, STEPS, Plan
from rtviewer.session.primary_rays import camera_rays, trace_settings
from rtviewer.session.source_rays import Found, SourceTracer, receiver_settings
from rtviewer.session.state import RaySettings
from rtviewer.trace.request import RayBatch, TraceResult

_NO_RAYS = RayBatch.make(np.empty((0, 3)), np.empty((0, 3)))

OnPass = Callable[[ImageBuffer, float, bool], None]
"""Called after each pass with the picture so far, the fraction of pixels traced and whether it is complete."""


def trace_passes(
    request: ImageRequest,
    pool: ThreadPoolExecutor,
    threads: int,
    *,
    on_pass: OnPass | None = None,
    on_progress: Callable[[float], None] | None = None,
    cancelled: Cancelled | None = None,
    steps: tuple[int, ...] = STEPS,
    tile_points: int | None = None,
    finish_first: bool = False,
) -> ImageBuffer:
    """Trace a picture pass by pass; returns the complete one.

    ``pool`` runs ``threads`` workers at a time; the calling thread only waits. The result does not depend on their
    number, nor on ``steps`` (each a half or a quarter of the one before, the last 1) and ``tile_points``, the width of
    the later passes' tiles. Raises CancelledError, at most one tile's time after ``cancelled`` first answers True;
    with ``finish_first`` the first pass is still finished and told, unless that takes longer than FIRST_SECONDS: who
    asks for pictures faster than they come then still sees some.
    """
    started = time.perf_counter()
    check_request(request)
    stop: Cancelled = cancelled or (lambda: False)
    tracing = _Tracing(request, stop, on_progress)
    if finish_first:
        tracing.cancelled = lambda: stop() and time.perf_counter() - started > FIRST_SECONDS
    for step in steps:
        tracing.run_pass(pool, threads, step, TILE_POINTS if step > 1 or tile_points is None else tile_points)
        is_last = step == steps[-1]
        buffer = tracing.lattice.picture(time.perf_counter() - started, tracing.rays_traced)
        if on_pass is not None:
            on_pass(buffer, tracing.fraction, is_last)
        tracing.cancelled = stop
    return buffer


def follow_plan(
    plan: Plan,
    request: ImageRequest,
    pool: ThreadPoolExecutor,
    threads: int,
    *,
    on_pass: OnPass,
    on_progress: Callable[[float], None],
    cancelled: Cancelled,
) -> ImageBuffer:
    """``trace_passes`` in the steps and tiles that suit the speed of the pictures before, which ``plan`` knows."""
    steps, tile_points = plan.steps(request)

    def told(buffer: ImageBuffer, fraction: float, is_complete: bool) -> None:
        plan.learn(request, buffer)
        on_pass(buffer, fraction, is_complete)

    return trace_passes(
        request, pool, threads, on_pass=told, on_progress=on_progress, cancelled=cancelled, steps=steps,
        tile_points=tile_points, finish_first=True,
    )  # fmt: skip


class _Tracing:
    """One picture on its way: the lattice being traced, and what the workers share."""

    lattice: Lattice

    def __init__(
        self, request: ImageRequest, cancelled: Cancelled, on_progress: Callable[[float], None] | None
    ) -> None:
        self.request = request
        self.cancelled = cancelled
        self.total = request.width * request.height
        self.traced = 0
        """Pixels that the lattice holds."""
        self.fraction = 0.0
        self.rays_traced = 0
        self._before: Lattice | None = None
        self._dispatcher = request.world.dispatcher(request.profile)
        self._settings = trace_settings(request.rays, request.world.scene)
        self._x_ray = replace(self._settings, x_ray=True)
        self._source: SourceTracer | None = None
        if request.has_receivers:
            self._source = SourceTracer(request.world, request.source, request.rays, request.profile)
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def run_pass(self, pool: ThreadPoolExecutor, threads: int, step: int, tile_points: int) -> None:
        """Trace one pass and wait. Raises CancelledError, or what a worker raised."""
        before = self._before if self._before is not None and self._before.step == 2 * step else None
        self.lattice = Lattice(self.request, step)
        self.traced = self.lattice.take(before) if before is not None else 0
        corners = iter(tiles(self.request, step, tile_points))
        futures = [pool.submit(self._work, corners, before is None) for _ in range(threads)]
        wait(futures)
        for future in futures:
            future.result()
        if self._stop.is_set() or self.cancelled():
            raise CancelledError("the image was cancelled")
        self._before = self.lattice

    def _work(self, corners: Iterator[Tile], whole: bool) -> None:
        """One worker: take tiles until there are none, or someone stops."""
        try:
            while not self._stop.is_set():
                if self.cancelled():
                    self._stop.set()
                    return
                with self._lock:
                    tile = next(corners, None)
                if tile is None:
                    return
                self._trace_tile(tile, whole)
        except BaseException:
            self._stop.set()
            raise

    def _trace_tile(self, tile: Tile, whole: bool) -> None:
        request, lattice = self.request, self.lattice
        columns, rows = lattice.pixels(tile, whole)
        if not len(columns):
            return
        settings = request.rays if self._source is None else receiver_settings(request.rays)
        batch = camera_rays(request.camera, request.width, request.height, columns, rows, settings)
        try:
            result, x_ray = self._traced(batch, columns, rows)
        except InvalidInputError:
            self._raise_fault_of_pixel(batch, columns, rows)
            raise
        lattice.store(tile, whole, result, x_ray)
        with self._lock:
            self.traced += len(columns)
            self.rays_traced += result.ray_count if isinstance(result, Found) else len(columns)
            self.fraction = fraction = max(self.fraction, self.traced / self.total)
        if self._on_progress is not None:
            self._on_progress(fraction)

    def _traced(
        self, batch: RayBatch, columns: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[TraceResult | Found, NDArray[np.int32] | None]:
        """What the rays of some pixels found, and the counters of their x-ray when it was asked for."""
        request = self.request
        if self._source is not None:
            found = self._source.trace(
                batch, columns, rows, counters=request.counters, x_ray=request.x_ray, cancelled=self.cancelled
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
