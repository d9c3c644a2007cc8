"""What is open: a scene and the structures built from it. Frozen and replaced whole; nothing here starts a thread.

A World is complete and read-only, so any number of threads may trace it. What is expensive and derived (trees,
statistics, the dispatch table) is made on first use and kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rtviewer.accel.navigate import Tree, tree_of
from rtviewer.accel.structure import Structure
from rtviewer.dxr.flags import BuildFlag, RayFlag
from rtviewer.dxr.limits import ACCELERATION_STRUCTURE_BYTE_ALIGNMENT
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram, ProgramKind
from rtviewer.dxr.rules import require
from rtviewer.errors import CancelledError, InvalidInputError, ProgramError, RtviewerError, Violation
from rtviewer.scene.camera import Camera, fitting_camera
from rtviewer.scene.material import GeometryMaterials
from rtviewer.scene.scene import Instance, Scene
from rtviewer.session.build_settings import check_build_settings
from rtviewer.session.left_out import left_out
from rtviewer.session.records import CopyRecord, UpdateRecord
from rtviewer.session.state import BuildSettings, RaySettings

if TYPE_CHECKING:
    from rtviewer.accel.stats import StructureStatistics
    from rtviewer.io.ray_file import RayTable
    from rtviewer.scene.ray_sources import ImageSource
    from rtviewer.session.image import ImageBuffer
    from rtviewer.session.ray_list import RayList
    from rtviewer.session.raylog import RayLog
    from rtviewer.trace.dispatch import Dispatcher

T = TypeVar("T")

Progress = Callable[[float, str], None]
"""Called from the working thread with the fraction done (0 to 1) and what is being done."""
Cancelled = Callable[[], bool]

TOP_LEVEL = -1
"""The structure index that means the TLAS; 0 and above index ``World.blases``."""

MAX_LISTED = 20
"""Problems of one kind that are listed one by one; more are counted."""

DEFAULT_SIZE = (960, 540)

FIRST_ADDRESS = 0x1_0000_0000
"""Simulated GPU address of the first structure. Fixed, so that the same scene always gives the same addresses."""


def _align(address: int) -> int:
    return -(-address // ACCELERATION_STRUCTURE_BYTE_ALIGNMENT) * ACCELERATION_STRUCTURE_BYTE_ALIGNMENT


@dataclass(frozen=True, eq=False)
class World:
    """A scene with its structures, ready to be traced.

    ``blases``: one structure per ``scene.blases`` entry, same order. ``settings``: the flags asked for in this build.
    ``generation``: counts builds of one session. ``seconds``: build time per structure, BLASes in order, then the TLAS.
    """

    scene: Scene
    blases: tuple[Structure, ...]
    tlas: Structure
    settings: BuildSettings = field(default_factory=BuildSettings)
    generation: int = 0
    seconds: tuple[float, ...] = ()
    _kept: dict[tuple[str, object], Any] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _locks: dict[tuple[str, object], threading.Lock] = field(default_factory=dict, init=False, repr=False)

    def structure(self, index: int) -> Structure:
        """The structure of an index: ``TOP_LEVEL`` (-1) or a position in ``blases``."""
        return self.tlas if index == TOP_LEVEL else self.blases[index]

    @property
    def structure_indices(self) -> range:
        """All structure indices, the TLAS first."""
        return range(TOP_LEVEL, len(self.blases))

    def build_seconds(self, index: int) -> float:
        """Seconds the build of a structure took, 0.0 when not known."""
        if not self.seconds:
            return 0.0
        return self.seconds[-1] if index == TOP_LEVEL else self.seconds[index]

    @cached_property
    def blas_table(self) -> Mapping[int, Structure]:
        """Simulated address to bottom-level structure."""
        return {blas.address: blas for blas in self.blases}

    @property
    def material_table(self) -> Mapping[int, GeometryMaterials]:
        """Simulated address of a bottom level to its materials: shader resources, which no structure holds."""
        return {blas.address: own for blas, own in zip(self.blases, self.scene.materials, strict=False)}

    @cached_property
    def instance_blas(self) -> NDArray[np.int32]:
        """(instances,) int32: index into ``blases`` of every instance's structure, -1 for none."""
        addresses = self.tlas.instance_descs["AccelerationStructure"]
        known = np.array([blas.address for blas in self.blases], np.uint64)
        if not len(known):
            return np.full(len(addresses), -1, np.int32)
        order = np.argsort(known)  # copies live at addresses of their own
        place = order[np.minimum(np.searchsorted(known, addresses, sorter=order), len(known) - 1)]
        return np.where(known[place] == addresses, place, -1).astype(np.int32)

    def blas_of_instance(self, instance_index: int) -> int:
        """Index into ``blases`` of an instance's structure, -1 when it has none (INST-2)."""
        return int(self.instance_blas[instance_index])

    def dispatcher(self, profile: Profile = DEFAULT_PROFILE) -> Dispatcher:
        """The prepared table of byte views; may be used by several threads at once. Tracing with it loads numba."""

        def make() -> Dispatcher:
            from rtviewer.trace.dispatch import Dispatcher

            return Dispatcher(self.tlas, self.blas_table, profile, self.material_table)

        return self._keep("dispatcher", profile, make)

    def tree(self, index: int) -> Tree:
        """The numbered boxes of a structure."""
        return self._keep("tree", index, lambda: tree_of(self.structure(index)))

    def statistics(self, index: int) -> StructureStatistics:
        """SAH cost, depth and counts of a structure."""

        def make() -> StructureStatistics:
            from rtviewer.accel.stats import statistics

            return statistics(self.structure(index))

        return self._keep("statistics", index, make)

    def object_space(self, index: int) -> World:
        """The same bottom level under one identity instance: what a view of its object space picks in."""

        def make() -> World:
            from rtviewer.build.builder import build_tlas
            from rtviewer.scene.inputs import instance_inputs

            materials = self.scene.materials[index : index + 1]
            scene = Scene(self.scene.name, self.scene.blases[index : index + 1], (Instance(0),), materials=materials)
            blas = self.blases[index]
            tlas = build_tlas(instance_inputs(scene, [blas.address]), BuildFlag.NONE, blases={blas.address: blas})
            return World(scene, (blas,), tlas, self.settings, self.generation)

        return self._keep("object_space", index, make)

    @cached_property
    def bounds(self) -> NDArray[np.float64] | None:
        """World bounds of the scene, (2, 3) float64, None when it holds nothing finite."""
        return self.scene.bounds()

    @property
    def last_size(self) -> tuple[int, int]:
        """Width and height of the last image that ``trace`` made of this world, else those of a usual one."""
        with self._lock:
            size: tuple[int, int] = self._kept.get(("size", "last"), DEFAULT_SIZE)
            return size

    def _keep(self, what: str, which: object, make: Callable[[], T]) -> T:
        """Made once, even when several threads ask at the same time; only those who ask for the same thing wait."""
        key = (what, which)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._kept:
                self._kept[key] = make()
            kept: T = self._kept[key]
            return kept

    # The public API's two questions (product, section 11); the session's other faces ask the same functions.

    def trace(
        self,
        camera: Camera | None = None,
        size: tuple[int, int] = DEFAULT_SIZE,
        *,
        ray_flags: RayFlag = RayFlag.NONE,
        mask: int = 0xFF,
        counters: bool = True,
        x_ray: bool = False,
        profile: Profile = DEFAULT_PROFILE,
        source: ImageSource | None = None,
        **settings: Any,
    ) -> ImageBuffer:
        """Trace an image of ``size`` (width, height). ``settings``: further fields of RaySettings, such as ``t_min``.

        ``x_ray``: also count what lies along every whole ray (``ImageBuffer.x_ray_counter``). ``source``: whose rays
        (ShadowRays, DiffuseRays, OcclusionRays); None is the camera's.

        Raises InvalidInputError when flags, interval or mask break a rule, RtviewerError on a camera without a view.
        """
        from rtviewer.session.image_tracing import trace_image

        rays = scene_rays(self.scene, ray_flags=ray_flags, mask=mask, **settings)
        image = trace_image(
            self, self._camera_for(camera), size, rays, counters=counters, x_ray=x_ray, profile=profile, source=source
        )
        with self._lock:
            self._kept["size", "last"] = (int(size[0]), int(size[1]))
        return image

    def explain(
        self,
        pixel: tuple[int, int] | None = None,
        *,
        origin: tuple[float, float, float] | None = None,
        direction: tuple[float, float, float] | None = None,
        camera: Camera | None = None,
        size: tuple[int, int] | None = None,
        ray_flags: RayFlag = RayFlag.NONE,
        mask: int = 0xFF,
        x_ray: bool = False,
        profile: Profile = DEFAULT_PROFILE,
        source: ImageSource | None = None,
        camera_ray: bool = False,
        **settings: Any,
    ) -> RayLog:
        """One ray's log: of a pixel of the image that ``trace`` makes, or of a typed ray (origin and direction).

        ``size``: of that image; None is that of this world's last one. ``x_ray``: the events of the whole ray.
        ``source``: of that image, with ``camera_ray`` the camera ray that found where its ray starts.
        """
        from rtviewer.session.raylog import walk_pixel, walk_ray

        rays = scene_rays(self.scene, ray_flags=ray_flags, mask=mask, **settings)
        if origin is not None and direction is not None and pixel is None:
            return walk_ray(self, origin, direction, rays, profile=profile, x_ray=x_ray)
        if pixel is None or origin is not None or direction is not None:
            raise RtviewerError("explain takes either pixel=(x, y), or origin=(x, y, z) and direction=(x, y, z)")
        return walk_pixel(
            self, self._camera_for(camera), size or self.last_size, pixel, rays, source, camera_ray=camera_ray,
            profile=profile, x_ray=x_ray,
        )  # fmt: skip

    def trace_rays(
        self,
        table: RayTable,
        *,
        ray_flags: RayFlag = RayFlag.NONE,
        mask: int = 0xFF,
        profile: Profile = DEFAULT_PROFILE,
        **settings: Any,
    ) -> RayList:
        """Trace a file's rays (``read_rays``); ``ray_flags`` and ``mask`` are for files that say none."""
        from rtviewer.session.ray_list import trace_list

        rays = scene_rays(self.scene, ray_flags=ray_flags, mask=mask, **settings)
        return trace_list(self, table, rays, profile=profile)

    def _camera_for(self, camera: Camera | None) -> Camera:
        """The camera given, or the scene's; raises RtviewerError when its numbers make no picture."""
        chosen = camera or self.scene.camera
        if (camera or self.scene.cameras) and (problem := chosen.problem()):
            raise RtviewerError(f"camera {chosen.name!r}: {problem}" if chosen.name else f"camera: {problem}")
        return chosen

    def save(self, path: Path | str) -> list[Path]:
        """Write a capture (``.rtcap``), or a folder of blobs where the path has no suffix; returns the files written.

        Raises FileFormatError for another suffix, RtviewerError when the file system refuses.
        """
        from rtviewer.session.copies import save_world

        return save_world(self, Path(path))


@dataclass(frozen=True)
class Problem:
    """One line of the Problems pane, with its rule if it has one.

    ``structure`` (-2 for none) and ``instance`` (-1 for none) link to the thing it is about.
    """

    severity: str
    """``error`` or ``warning``."""
    text: str
    rule: str = ""
    structure: int = -2
    instance: int = -1

    @classmethod
    def of_violation(cls, item: Violation) -> Problem:
        return cls("warning" if item.warning else "error", str(item), item.rule)


@dataclass(frozen=True, eq=False)
class Document:
    """An open file. ``path`` is None for a scene that was made in memory.

    ``scene``: as it was read, whatever experiments did to ``world``. ``has_inputs``: False when the file held finished
    structures, so that ``scene`` is what they give back. ``copies``, ``updates``: what the verbs did, oldest first.
    """

    path: Path | None
    scene: Scene
    world: World
    problems: tuple[Problem, ...] = ()
    has_inputs: bool = True
    copies: tuple[CopyRecord, ...] = ()
    updates: tuple[UpdateRecord, ...] = ()

    @property
    def title(self) -> str:
        return self.scene.name or (self.path.name if self.path else "untitled")


def scene_rays(scene: Scene, **settings: Any) -> RaySettings:
    """Ray settings with the scene's own programs, then with the given fields replaced.

    Numbers become members of their enums. Raises ProgramError for the number of a program that does not exist, and for
    the name of a user's program that ``programs`` has not.
    """
    rays = replace(RaySettings(any_hit=scene.any_hit, intersection=scene.intersection), **settings)
    try:
        any_hit = rays.any_hit if isinstance(rays.any_hit, str) else AnyHitProgram(rays.any_hit)
        intersection = rays.intersection
        intersection = intersection if isinstance(intersection, str) else IntersectionProgram(intersection)
    except ValueError as error:
        counts = f"any-hit has 0 to {len(AnyHitProgram) - 1}, intersection 0 to {len(IntersectionProgram) - 1}"
        raise ProgramError(f"there is no such program, {counts}: {error}") from error
    rays.programs.number(ProgramKind.ANY_HIT, any_hit)
    rays.programs.number(ProgramKind.INTERSECTION, intersection)
    return replace(rays, ray_flags=RayFlag(int(rays.ray_flags)), any_hit=any_hit, intersection=intersection)


def default_camera(scene: Scene) -> Camera:
    """The camera a scene opens with."""
    return scene.camera


def camera_named(scene: Scene, name: str | None) -> Camera:
    """A camera by name or position; None means the default one. Raises RtviewerError with the names there are."""
    if name is None:
        return scene.camera
    if name == "fit":
        return fitting_camera(scene.bounds())
    for index, camera in enumerate(scene.cameras):
        if name in (camera.name, str(index)):
            return camera
    there = ", ".join([*(repr(c.name or str(i)) for i, c in enumerate(scene.cameras)), "'fit'"])
    raise RtviewerError(f"no camera {name!r} in {scene.name}: there are {there}")


def build_world(
    scene: Scene,
    settings: BuildSettings | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    *,
    profile: Profile = DEFAULT_PROFILE,
    generation: int = 0,
) -> World:
    """Build every bottom level, then the top level over them, at simulated addresses.

    Guarantees: same scene and settings, same bytes and addresses. Raises InvalidInputError on illegal settings,
    CancelledError when ``cancelled`` answers True.
    """
    from rtviewer.build.builder import build_blas, build_tlas
    from rtviewer.build.input_arrays import check_geometry_arrays
    from rtviewer.scene.inputs import instance_inputs

    settings = settings or BuildSettings()
    if violations := [v for v in check_build_settings(settings, profile) if not v.warning]:
        raise InvalidInputError(violations, "build")
    for index, inputs in enumerate(scene.blases):
        require(check_geometry_arrays(inputs), f"build of {inputs.name or f'BLAS {index}'}")
    say: Progress = progress or (lambda fraction, text: None)
    is_cancelled: Cancelled = cancelled or (lambda: False)
    work = [max(blas.primitive_count, 1) for blas in scene.blases]
    total = sum(work) + max(len(scene.instances), 1)

    blases: list[Structure] = []
    seconds: list[float] = []
    address, done = FIRST_ADDRESS, 0
    for index, inputs in enumerate(scene.blases):
        if is_cancelled():
            raise CancelledError("the build was cancelled")
        name = inputs.name or f"BLAS {index}"
        report = _part(say, done, work[index], total, f"building {name}")
        start = time.perf_counter()
        blas = build_blas(
            inputs,
            settings.blas_flags,
            name=name,
            address=address,
            profile=profile,
            progress=report,
            cancelled=is_cancelled,
        )
        seconds.append(time.perf_counter() - start)
        blases.append(blas)
        address = _align(address + blas.size)
        done += work[index]

    report = _part(say, done, total - done, total, "building the top level")
    start = time.perf_counter()
    tlas = build_tlas(
        instance_inputs(scene, [blas.address for blas in blases]),
        settings.tlas_flags,
        blases={blas.address: blas for blas in blases},
        name="TLAS",
        address=address,
        profile=profile,
        progress=report,
        cancelled=is_cancelled,
    )
    seconds.append(time.perf_counter() - start)
    if is_cancelled():
        raise CancelledError("the build was cancelled")
    say(1.0, "built")
    return World(scene, tuple(blases), tlas, settings, generation, tuple(seconds))


def _part(say: Progress, done: int, share: int, total: int, text: str) -> Callable[[float], None]:
    """Progress of one structure as progress of the whole."""
    say(done / total, text)
    return lambda fraction: say((done + share * min(max(fraction, 0.0), 1.0)) / total, text)


def problems_of(world: World) -> tuple[Problem, ...]:
    """What a user should know about an open scene: reader's warnings, inactive and degenerate input, bad instances."""
    found = [Problem("warning", text) for text in world.scene.warnings]
    for index, blas in enumerate(world.blases):
        out = left_out(blas, world.scene.blases[index])
        boxes = blas.is_procedural
        if out.degenerate:
            what = "boxes, which are points" if boxes else "triangles, which no ray can hit"
            text = f"{blas.name}: {out.degenerate:,} degenerate {what}{_after_colon(out.degenerate_places)}"
            found.append(Problem("warning", f"[DEG-1] {text}", "DEG-1", index))
        if out.inactive:
            rule, what = ("INA-2", "boxes") if boxes else ("INA-1", "triangles")
            text = f"{blas.name}: {out.inactive:,} inactive {what}, which are counted but not in the tree"
            found.append(Problem("warning", f"[{rule}] {text}{_after_colon(out.inactive_places)}", rule, index))
    tlas = world.tlas
    singular = np.sort(tlas.instance_leaves["instance"][tlas.instance_leaves["state"] != 0])
    found += _instance_problems(singular, "INST-5", "transform cannot be inverted, so no ray enters")
    masked_out = np.flatnonzero(tlas.instance_descs["InstanceIDAndMask"] >> 24 == 0)
    found += _instance_problems(masked_out, "MASK-1", "mask is 0, so no ray's mask can meet it")
    return tuple(found)


def _after_colon(text: str) -> str:
    return f": {text}" if text else ""


def _instance_problems(instances: NDArray[np.integer[Any]], rule: str, text: str) -> list[Problem]:
    """A line for each of the first few instances, and one that counts the rest."""
    listed, rest = instances[:MAX_LISTED], len(instances) - MAX_LISTED
    found = [
        Problem("warning", f"[{rule}] instance {index}: its {text}", rule, TOP_LEVEL, int(index)) for index in listed
    ]
    if rest > 0:
        found.append(Problem("warning", f"[{rule}] {rest:,} more instances whose {text}", rule, TOP_LEVEL))
    return found
