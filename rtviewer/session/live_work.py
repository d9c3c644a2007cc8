"""How changes of the state become work, and how work becomes events: the part of a session that has no verbs."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rtviewer.session.document import Document, World
from rtviewer.session.events import (
    DocumentChanged,
    Event,
    ImageChanged,
    JobEnded,
    JobProgressed,
    LogChanged,
    PictureChanged,
    Refusal,
    Refused,
)
from rtviewer.session.image import ImageBuffer, ImageRequest, shade_image
from rtviewer.session.jobs import Job, JobCallbacks, JobRunner, Lane
from rtviewer.session.opening import BlobDocument
from rtviewer.session.raylog import RayLog, walk_pixel, walk_ray
from rtviewer.session.state import State
from rtviewer.session.store import Store
from rtviewer.shade import modes

Post = Callable[[Callable[[], None]], None]
"""Runs a function on the owner's thread, soon and in order. Called from any thread."""

PROGRESS_SECONDS = 1 / 30
"""Progress of a job is told at most this often: more only costs the owner's thread time."""


class LiveWork:
    """Store, document, jobs and listeners, and the images, pictures and logs that follow the state."""

    def __init__(self, post: Post | None = None, *, live: bool = False, threads: int | None = None) -> None:
        self.store = Store()
        self.jobs = JobRunner(threads)
        self.live = live
        self._document: Document | None = None
        self._blob: BlobDocument | None = None
        self._image: ImageBuffer | None = None
        self._shaded: modes.Shaded | None = None
        self._log: RayLog | None = None
        self._image_generation = 0
        self._log_generation = 0
        self._build_generation = 0
        self._listeners: list[Callable[[Event], None]] = []
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._post: Post = post or self._inbox.put
        self._requested_counters = self._requested_x_ray = False
        self._newest: dict[Lane, object] = {}
        self.store.subscribe(self._on_state)

    # What there is

    @property
    def state(self) -> State:
        return self.store.state

    @property
    def document(self) -> Document | None:
        return self._document

    @property
    def world(self) -> World | None:
        return self._document.world if self._document else None

    @property
    def blob(self) -> BlobDocument | None:
        """The foreign blob that is looked at, beside whatever document is open."""
        return self._blob

    @property
    def image(self) -> ImageBuffer | None:
        """The newest picture told, coarse or complete."""
        return self._image

    @property
    def shaded(self) -> modes.Shaded | None:
        """The newest picture that was coloured (live sessions only)."""
        return self._shaded

    @property
    def log(self) -> RayLog | None:
        return self._log

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Tell ``listener`` every event on the owner's thread; returns the function that ends it.

        Ending does nothing more when the session was closed or it was ended before.
        """
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def pump(self, timeout: float = 0.0) -> bool:
        """Without ``post``: handle what work has sent, waiting ``timeout`` seconds for the first; False if none."""
        handled = False
        while True:
            try:
                action = self._inbox.get(timeout=timeout) if timeout > 0 and not handled else self._inbox.get_nowait()
            except queue.Empty:
                return handled
            action()
            handled = True

    def wait(self, timeout: float = 60.0) -> bool:
        """Without ``post``: pump until no job runs; False when ``timeout`` seconds were not enough."""
        end = time.monotonic() + timeout
        while True:
            is_idle = not self.jobs.is_busy()  # asked first: what a job sent before it ended is then in the inbox
            if not self.pump(0.0 if is_idle else 0.02) and is_idle:
                return True
            if time.monotonic() > end:
                return False

    def close(self) -> None:
        """Cancel all work and end its threads."""
        self._listeners.clear()
        self.live = False
        self.jobs.close()

    def _show_rebuilt(self, document: Document) -> None:
        """The open scene with other structures: numbers of boxes mean nothing any more, the rest stays."""
        self._document = document
        self.store.replace(selection=replace(self.state.selection, box=-1))
        self._tell(DocumentChanged(document, is_rebuild=True))
        self._request_image()
        self._request_log()

    # What follows changes

    def _on_state(self, old: State, new: State, changed: frozenset[str]) -> None:
        mode, mode_before = modes.MODES[new.image.mode], modes.MODES[old.image.mode]
        lacks = mode.needs_counters > self._requested_counters or mode.is_x_ray > self._requested_x_ray
        is_other_source = old.source.active != new.source.active
        if changed & {"rays", "camera", "image_size"} or is_other_source or ("image" in changed and lacks):
            self._request_image()
        if "image" in changed:
            self._colour_image()
        log_differs = mode.is_x_ray != mode_before.is_x_ray and (new.pick or new.typed_ray)
        if changed & {"rays", "pick", "typed_ray"} or (changed & {"camera", "source"} and new.pick) or log_differs:
            self._request_log()

    def _request_image(self) -> None:
        if self.live:
            self._start_image()

    def _start_image(self) -> Job | None:
        world, state = self.world, self.state
        if world is None:
            return None
        self._image_generation += 1
        generation = self._image_generation
        mode = modes.MODES[state.image.mode]
        request = ImageRequest(
            world, state.camera, *state.image_size, state.rays, mode.needs_counters, generation, state.profile,
            mode.is_x_ray, state.source.active,
        )  # fmt: skip
        self._requested_counters, self._requested_x_ray = request.counters, request.x_ray

        def show(buffer: ImageBuffer, fraction: float, is_complete: bool) -> None:
            if self.world is world and (generation == self._image_generation or self._is_worth_showing(buffer)):
                self._image = buffer
                self._tell(ImageChanged(buffer, fraction, is_complete))
                self._colour_image()

        def on_pass(buffer: ImageBuffer, fraction: float, is_complete: bool) -> None:
            self._post(lambda: show(buffer, fraction, is_complete))

        self._tell(JobProgressed(Lane.IMAGE, 0.0, "tracing"))
        return self.jobs.trace(request, on_pass, self._callbacks(Lane.IMAGE, lambda _: None))

    def _is_worth_showing(self, buffer: ImageBuffer) -> bool:
        """Whether an overtaken picture differs from what is asked for by its camera only, and is the newest so far."""
        request, state, shown = buffer.request, self.state, self._image
        return (
            (request.width, request.height) == state.image_size
            and (request.rays, request.source, request.profile) == (state.rays, state.source.active, state.profile)
            and (request.counters, request.x_ray) == (self._requested_counters, self._requested_x_ray)
            and (shown is None or shown.generation < request.generation)
        )

    def _colour_image(self) -> None:
        """Colour the newest image off this thread and tell the picture."""
        buffer, settings = self._image, self.state.image
        if not self.live or buffer is None:
            return
        mode = modes.MODES[settings.mode]
        if (mode.needs_counters and buffer.counters is None) or (mode.is_x_ray and buffer.x_ray is None):
            return  # the image with counters is on its way

        def work(_: Job) -> modes.Shaded:
            return shade_image(buffer, settings, self.jobs.shade_pool if buffer.is_complete else None)

        def show(shaded: modes.Shaded) -> None:
            if self._image is not None and self._image.world is buffer.world:
                self._shaded = shaded
                self._tell(PictureChanged(shaded, buffer))

        self.jobs.submit(Lane.SHADE, "colouring", work, self._callbacks(Lane.SHADE, show))

    def _request_log(self) -> None:
        if self.live:
            self.explain_now()

    def explain_now(self) -> Job | None:
        """Walk the picked or typed ray; a live session does it by itself. None when there is none."""
        world, state = self.world, self.state
        self._log_generation += 1
        generation = self._log_generation
        pick, ray, x_ray = state.pick, state.typed_ray, modes.MODES[state.image.mode].is_x_ray
        if world is None or (pick is None and ray is None):
            self.jobs.cancel(Lane.LOG)
            self._tell_log(None)
            return None

        def work(_: Job) -> RayLog:
            if ray is not None:
                log = walk_ray(
                    world, ray.origin, ray.direction, ray.settings(state.rays), profile=state.profile, x_ray=x_ray,
                    source=ray.source, list_index=ray.list_index,
                )  # fmt: skip
            else:
                assert pick is not None
                size, pixel, source = (pick.width, pick.height), (pick.x, pick.y), state.source
                log = walk_pixel(
                    world, state.camera, size, pixel, state.rays, source.active, camera_ray=source.logs_camera_ray,
                    profile=state.profile, x_ray=x_ray,
                )  # fmt: skip
            log.playback.prepare()
            return log

        def show(log: RayLog) -> None:
            if generation == self._log_generation and self.world is world:
                self._tell_log(log)

        return self._submit(Lane.LOG, "walking the ray", work, show)

    def _submit(self, lane: Lane, title: str, work: Callable[[Job], Any], show: Callable[[Any], None]) -> Job:
        self._tell(JobProgressed(lane, 0.0, title))
        return self.jobs.submit(lane, title, work, self._callbacks(lane, show))

    def _callbacks(self, lane: Lane, show: Callable[[Any], None]) -> JobCallbacks:
        """Callbacks of a job that bring everything to the owner's thread, progress no more often than is useful."""
        last = [0.0]
        token = object()
        self._newest[lane] = token

        def tell(event: Event) -> None:
            if self._newest.get(lane) is token:  # an overtaken job is silent: its lane is still at work
                self._tell(event)

        def on_progress(fraction: float, text: str) -> None:
            now = time.monotonic()
            if now - last[0] >= PROGRESS_SECONDS:
                last[0] = now
                self._post(lambda: tell(JobProgressed(lane, fraction, text)))

        def finished(result: Any) -> None:
            show(result)
            tell(JobEnded(lane))

        return JobCallbacks(
            on_progress,
            lambda result: self._post(lambda: finished(result)),
            lambda error: self._post(lambda: tell(JobEnded(lane, error))),
            lambda: self._post(lambda: tell(JobEnded(lane, is_cancelled=True))),
        )

    def _refuse(self, refusal: Refusal) -> Refusal:
        self._tell(Refused(refusal))
        return refusal

    def _tell_log(self, log: RayLog | None) -> None:
        if log is None and self._log is None:
            return
        if log is not None and log.is_same_walk(self._log):
            self._log = log  # a pixel's ray that now stands in the world: the position in it holds
        else:
            self._log = log
            self.store.replace(log_position=-1)
        self._tell(LogChanged(log))

    def _tell(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            listener(event)
