"""The verbs on ray sources: which source makes the picture, its parameters, single rays, and the list of rays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtviewer.dxr.rules import check_ray_interval
from rtviewer.errors import RtviewerError
from rtviewer.scene.ray_sources import SOURCES, ImageSource, SourceKind, Vector, check_source, resolved, spec_of
from rtviewer.scene.scene import Scene
from rtviewer.session.events import DocumentChanged, Event, RaysChanged, Refusal
from rtviewer.session.jobs import Job, Lane
from rtviewer.session.live_work import LiveWork
from rtviewer.session.ray_list import RayList, trace_list
from rtviewer.session.raylog import check_ray_values
from rtviewer.session.source_rays import check_source_interval
from rtviewer.session.state import LoggedRay, SourceSettings, State

if TYPE_CHECKING:
    from rtviewer.io.ray_file import RayTable
    from rtviewer.session.document import World


def source_of(scene: Scene) -> SourceSettings:
    """The settings a scene opens with."""
    return SourceSettings.using(scene.ray_source, spec_of(scene.ray_source).kind)


class SourceCommands(LiveWork):
    """Verbs of a session about where rays come from."""

    _ray_table: RayTable | None = None
    _ray_list: RayList | None = None

    # What makes the picture

    def set_source(self, kind: SourceKind | str) -> Refusal | None:
        """Make the picture of another source's rays; refused by RAY-2 when the interval set leaves them no room."""
        named = [spec.kind for spec in SOURCES.values() if spec.has_image]
        if str(kind) not in named:
            return self._refuse(Refusal(f"no source {str(kind)!r} makes a picture: there are {', '.join(named)}"))
        return self._use(replace(self.state.source, kind=SourceKind(kind)))

    def set_source_parameter(self, name: str, value: Any, kind: SourceKind | None = None) -> Refusal | None:
        """Set a parameter of a source (None: the one in use); a value of None is the automatic one, where there is."""
        settings = self.state.source
        kind = kind or settings.kind
        parameters = {parameter.name: parameter for parameter in SOURCES[kind].parameters}
        if name not in parameters or not SOURCES[kind].has_image:
            return self._refuse(Refusal(f"source {kind.value} has no parameter {name!r}"))
        if isinstance(value, list):
            value = tuple(value)
        source = replace(settings.of(kind), **{name: value})
        if problem := check_source(source):
            return self._refuse(Refusal(problem))
        return self._use(settings.with_source(source, kind))

    def set_light(self, position: Vector | None) -> Refusal | None:
        """Put the light of shadow rays somewhere; None where it is by itself."""
        return self.set_source_parameter("light", position, SourceKind.SHADOW)

    def light_at_eye(self) -> Refusal | None:
        """Put the light of shadow rays where the camera is."""
        return self.set_light(self.state.camera.position)

    def log_camera_ray(self, on: bool) -> None:
        """Whether a picked pixel's log is about its camera ray and not about the source's."""
        self.store.replace(source=replace(self.state.source, logs_camera_ray=bool(on)))

    def resolved_source(self) -> ImageSource:
        """The source in use with automatic parameters filled in from the open scene."""
        return self._resolved(self.state.source.active)

    def light_position(self) -> Vector | None:
        """Where the light is; None while another source is in use."""
        source = self.resolved_source()
        return getattr(source, "light", None)

    def _resolved(self, source: ImageSource) -> ImageSource:
        world = self.world
        return resolved(source, world.bounds if world is not None else None)

    def _use(self, settings: SourceSettings) -> Refusal | None:
        if settings.kind is not SourceKind.CAMERA:
            found = check_source_interval(self.state.rays, self._resolved(settings.active))
            if found:
                return self._refuse(Refusal.of(found))
        self.store.replace(source=settings)
        return None

    # Single rays

    def log_ray(self, origin: Vector, direction: Vector) -> Refusal | None:
        """Log a typed ray with the ray settings."""
        if found := [v for v in check_ray_values(origin, direction) if not v.warning]:
            return self._refuse(Refusal.of(found))
        self.store.replace(typed_ray=LoggedRay(origin, direction), pick=None)
        return None

    def pin_ray(self) -> None:
        """Let the picked pixel's ray stand in the world, so that it can be looked at from elsewhere.

        It keeps what its source made of the ray settings, and follows them in the rest.
        """
        log, rays = self.log, self.state.rays
        if self.state.pick is None or log is None or log.pixel is None:
            return
        own = {name: getattr(log.rays, name) for name in ("t_min", "t_max", "ray_flags", "mask")}
        own = {name: value for name, value in own.items() if value != getattr(rays, name)}
        self.store.replace(typed_ray=LoggedRay(log.origin, log.direction, **own, source=log.source), pick=None)

    # The list of rays

    @property
    def ray_list(self) -> RayList | None:
        """The rays of a file with what they hit in the open scene."""
        return self._ray_list

    def open_rays(self, path: Path | str) -> Job | Refusal:
        """Read a file of rays and trace them, in the background; the list there is stays on failure."""
        from rtviewer.io.ray_file import read_rays

        world, state = self.world, self.state
        if world is None:
            return self._refuse(Refusal("rays need a scene to be traced in: open one first"))

        def work(job: Job) -> RayList:
            job.progress(0.0, f"reading {Path(path).name}")
            return self._traced(job, world, read_rays(path), state)

        def show(rays: RayList) -> None:
            self._ray_table = rays.table
            if rays.world is self.world:
                self._show_rays(rays)
            else:
                self.trace_rays()

        return self._submit(Lane.RAYS, f"reading {Path(path).name}", work, show)

    def close_rays(self) -> None:
        """Forget the list of rays."""
        self.jobs.cancel(Lane.RAYS)
        self._ray_table = None
        self._show_rays(None)

    def trace_rays(self) -> Job | None:
        """Trace the list anew with the present scene and settings; the session does it when they change."""
        table, world, state = self._ray_table, self.world, self.state
        if table is None or world is None:
            return None
        return self._submit(
            Lane.RAYS, "tracing rays", lambda job: self._traced(job, world, table, state), self._show_rays
        )

    def log_listed_ray(self, index: int) -> Refusal | None:
        """Log a ray of the list as it was traced; refused by the rule that an invalid one breaks."""
        rays = self._ray_list
        if rays is None or not 0 <= index < len(rays):
            return self._refuse(Refusal(f"there is no ray {index} in the list"))
        if rays.hits.invalid[index]:
            return self._refuse(Refusal(f"ray {index} was not traced: {rays.problems[rays.problem[index]]}"))
        table = rays.table
        ray = LoggedRay(
            tuple(table.origin[index].tolist()), tuple(table.direction[index].tolist()),
            float(table.t_min[index]), float(table.t_max[index]),
            None if table.flags is None else rays.settings_of(index).ray_flags,
            None if table.mask is None else int(table.mask[index]), SourceKind.FILE, index,
        )  # fmt: skip
        self.store.replace(typed_ray=ray, pick=None)
        return None

    def export_rays(self, path: Path | str) -> Job | Refusal:
        """Write the rays with their results, as .npz or .csv, in the background."""
        from rtviewer.io.ray_file import ray_suffix, write_ray_columns

        rays, file = self._ray_list, Path(path)
        if rays is None:
            return self._refuse(Refusal("there is no list of rays to write"))
        try:
            ray_suffix(file)
        except RtviewerError as error:
            return self._refuse(Refusal.of_error(error))
        return self._submit(
            Lane.COPY, f"writing {file.name}", lambda _: write_ray_columns(file, rays.arrays()), lambda _: None
        )

    def _traced(self, job: Job, world: World, table: RayTable, state: State) -> RayList:
        return trace_list(
            world, table, state.rays, profile=state.profile, threads=self.jobs.threads, progress=job.progress,
            cancelled=job.is_cancelled,
        )  # fmt: skip

    def _show_rays(self, rays: RayList | None) -> None:
        if rays is not None and (rays.table is not self._ray_table or rays.world is not self.world):
            return  # overtaken
        self._ray_list = rays
        self._tell(RaysChanged(rays))

    # What follows changes

    def set_interval(self, t_min: float, t_max: float) -> Refusal | None:
        """Set TMin and TMax; refused by RAY-2 and RAY-3. Infinity is legal."""
        found = check_ray_interval(t_min, t_max)
        rays = replace(self.state.rays, t_min=float(t_min), t_max=float(t_max)) if not found else self.state.rays
        if not found and self.state.source.kind is not SourceKind.CAMERA:
            found = check_source_interval(rays, self.resolved_source())
        if found:
            return self._refuse(Refusal.of(found))
        self.store.replace(rays=rays)
        return None

    def _on_state(self, old: State, new: State, changed: frozenset[str]) -> None:
        super()._on_state(old, new, changed)
        if self.live and changed & {"rays", "profile"}:
            self.trace_rays()

    def _tell(self, event: Event) -> None:
        super()._tell(event)
        if isinstance(event, DocumentChanged) and self._ray_table is not None:
            if event.document is None:
                self.close_rays()
            elif self.live:
                self.trace_rays()
