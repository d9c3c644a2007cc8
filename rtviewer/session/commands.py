"""Every verb a user has. Window, command line and scripts call these; nothing else changes the state.

A Session belongs to the thread that made it: commands are called there, and store and listeners are told there. Work
runs elsewhere and comes back through ``post``. A command that breaks a rule changes nothing, tells ``Refused`` and
returns the Refusal; otherwise it returns None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtviewer.dxr.flags import AccelerationStructureType, BuildFlag, RayFlag, parse_flags
from rtviewer.dxr.profile import Profile
from rtviewer.dxr.programs import (
    NO_PROGRAMS,
    AnyHitChoice,
    AnyHitProgram,
    IntersectionChoice,
    IntersectionProgram,
    ProgramKind,
    ProgramTable,
)
from rtviewer.dxr.rules import check_instance_flags, check_ray_flags
from rtviewer.errors import ProgramError, RtviewerError, violation
from rtviewer.scene.camera import Camera, fitting_camera
from rtviewer.scene.ray_sources import SourceKind
from rtviewer.session import build_settings, warming
from rtviewer.session import document as documents
from rtviewer.session.copy_commands import CopyCommands
from rtviewer.session.document import Document
from rtviewer.session.events import BlobChanged, DocumentChanged, Refusal
from rtviewer.session.hlsl import flags_as_hlsl, ray_as_hlsl
from rtviewer.session.image import MAX_PIXELS
from rtviewer.session.image_commands import ImageCommands
from rtviewer.session.jobs import Job, Lane
from rtviewer.session.live_work import LiveWork
from rtviewer.session.log_commands import LogCommands
from rtviewer.session.opening import BlobDocument, open_document
from rtviewer.session.primary_rays import pixel_ray
from rtviewer.session.selecting import pick_selection, selection_bounds, with_box
from rtviewer.session.source_commands import SourceCommands, source_of
from rtviewer.session.state import BuildSettings, ImageSettings, Pick, RangeKind, Selection
from rtviewer.shade import modes, palettes, shadings

if TYPE_CHECKING:
    from rtviewer.io.bottom_level_files import BottomLevelFile

LEVELS = {
    "blas": ("blas_flags", AccelerationStructureType.BOTTOM_LEVEL),
    "tlas": ("tlas_flags", AccelerationStructureType.TOP_LEVEL),
}


class Session(CopyCommands, ImageCommands, LogCommands, SourceCommands, LiveWork):
    """Store, document and jobs of one window or script.

    ``post``: how finished work reaches the owner's thread; without it results wait until ``pump`` or ``wait``.
    ``live``: trace an image and walk the picked ray anew whenever something they depend on changes, as a window wants.
    """

    # Documents

    def open(
        self, path: Path | str, *, bottom_levels: Sequence[BottomLevelFile] = (), base_address: int | None = None
    ) -> Job:
        """Read a file and build it, in the background; the document that is open stays until then, and on failure.

        ``bottom_levels``, ``base_address``: see ``io.registry.load_source``. A blob of another driver becomes ``blob``
        beside the open document.
        """
        state = self.state
        self._build_generation += 1
        generation = self._build_generation

        def work(job: Job) -> Document | BlobDocument:
            return open_document(
                path, state.build, job.progress, job.is_cancelled, profile=state.profile, generation=generation,
                bottom_levels=bottom_levels, base_address=base_address,
            )  # fmt: skip

        def show(document: Document | BlobDocument) -> None:
            if generation != self._build_generation:
                return
            if isinstance(document, BlobDocument):
                self.show_blob(document)
            else:
                self.show_document(document)

        return self._submit(Lane.DOCUMENT, f"opening {Path(path).name}", work, show)

    def show_document(self, document: Document) -> None:
        """Make a finished document the open one: its programs, its first camera, nothing selected."""
        self.jobs.cancel(Lane.IMAGE)
        self.jobs.cancel(Lane.LOG)
        scene, state = document.scene, self.state
        self._document, self._image, self._shaded = document, None, None
        self._tell_log(None)
        self._tell(DocumentChanged(document))
        self.store.replace(
            rays=replace(state.rays, any_hit=scene.any_hit, intersection=scene.intersection),
            camera=scene.camera,
            selection=Selection(),
            pick=None,
            typed_ray=None,
            expected=None,
            view=replace(state.view, scope=documents.TOP_LEVEL),
            source=source_of(scene),
        )
        self._request_image()

    def show_blob(self, blob: BlobDocument | None) -> None:
        """Look at a blob of another driver, or at none; the open document stays."""
        self._blob = blob
        self._tell(BlobChanged(blob))

    def close_document(self) -> None:
        """Forget the open document."""
        self._build_generation += 1
        for lane in (Lane.DOCUMENT, Lane.IMAGE, Lane.LOG):
            self.jobs.cancel(lane)
        self._document = self._image = self._shaded = None
        self.store.replace(selection=Selection(), pick=None, typed_ray=None, expected=None)
        self._tell_log(None)
        self._tell(DocumentChanged(None))

    def rebuild(self) -> Job | None:
        """Build the open scene with the build flags set now, in the background; None when nothing is open."""
        document, state = self._document, self.state
        if document is None:
            return None
        self._build_generation += 1
        generation = self._build_generation

        def work(job: Job) -> Document:
            world = documents.build_world(
                document.scene, state.build, job.progress, job.is_cancelled,
                profile=state.profile, generation=generation,
            )  # fmt: skip
            problems = documents.problems_of(world)
            return replace(document, world=world, problems=problems, copies=(), updates=())

        def show(rebuilt: Document) -> None:
            if generation == self._build_generation:
                self._show_rebuilt(rebuilt)

        return self._submit(Lane.DOCUMENT, f"building {document.title}", work, show)

    def warm_up(self, *, after_first_picture: bool = False) -> Job:
        """Load or compile all kernels in the background.

        ``after_first_picture``: at once only those that trace it, beside the opening of a scene; the rest waits for it.
        """
        return warming.warm_up(self, after_first_picture=after_first_picture)

    # Ray settings

    def set_ray_flag(self, flag: RayFlag, on: bool) -> Refusal | None:
        """Set or clear one ray flag; refused by RF-1 to RF-4."""
        word = int(self.state.rays.ray_flags)
        return self.set_ray_flags(word | int(flag) if on else word & ~int(flag))

    def set_ray_flags(self, flags: RayFlag | int | str) -> Refusal | None:
        """Set the whole word: a number, or text as names, HLSL (``RAY_FLAG_A | RAY_FLAG_B``) or hex."""
        try:
            word = parse_flags(RayFlag, flags) if isinstance(flags, str) else RayFlag(int(flags))
        except ValueError as error:
            return self._refuse(Refusal(str(error)))
        if found := check_ray_flags(word, self.state.profile):
            return self._refuse(Refusal.of(found))
        self.store.replace(rays=replace(self.state.rays, ray_flags=word))
        return None

    def ray_flag_refusals(self) -> dict[RayFlag, str]:
        """Flags that could not be set on top of the word now, each with the rule's sentence."""
        word = self.state.rays.ray_flags
        reasons = {}
        for flag in RayFlag:
            if int(flag) and not word & flag and (found := check_ray_flags(word | flag, self.state.profile)):
                reasons[flag] = Refusal.of(found).text
        return reasons

    def set_mask(self, mask: int | str) -> Refusal | None:
        """Set InstanceInclusionMask; text is a number such as ``0x0F``. Only 8 bits have a meaning (MASK-2)."""
        try:
            value = int(mask, 0) if isinstance(mask, str) else int(mask)
        except ValueError:
            return self._refuse(Refusal(f"{mask!r} is not a mask: use a number from 0x00 to 0xFF"))
        if not 0 <= value <= 0xFF:
            text = "a ray's mask has 8 bits: use a number from 0x00 to 0xFF"
            return self._refuse(
                Refusal.of([violation("MASK-2", text, field="InstanceInclusionMask", value=hex(value))])
            )
        self.store.replace(rays=replace(self.state.rays, mask=value))
        return None

    def set_programs(
        self, any_hit: AnyHitChoice | int | None = None, intersection: IntersectionChoice | int | None = None
    ) -> Refusal | None:
        """Choose any-hit and intersection programs: built-in ones, or loaded ones by name; None keeps what is there."""
        rays = self.state.rays
        try:
            if any_hit is not None:
                rays.programs.number(ProgramKind.ANY_HIT, any_hit)
                rays = replace(rays, any_hit=any_hit if isinstance(any_hit, str) else AnyHitProgram(any_hit))
            if intersection is not None:
                rays.programs.number(ProgramKind.INTERSECTION, intersection)
                chosen = intersection if isinstance(intersection, str) else IntersectionProgram(intersection)
                rays = replace(rays, intersection=chosen)
        except (ProgramError, ValueError) as error:
            return self._refuse(Refusal(str(error)))
        self.store.replace(rays=rays)
        return None

    def load_programs(self, path: Path | str) -> Job:
        """Run a user's Python file and compile its programs, in the background; they replace those loaded before.

        The file is code and runs with the user's rights: call this only when the user asked for it. Errors come as the
        job's ProgramError, with file and line. A chosen program that the new file has not falls back to a built-in one.
        """

        def work(_: Job) -> ProgramTable:
            from rtviewer.session.user_programs import load_programs

            return load_programs(Path(path))

        return self._submit(Lane.PROGRAMS, f"compiling {Path(path).name}", work, self._show_programs)

    def unload_programs(self) -> None:
        """Forget the user's programs; where one was chosen, a built-in one takes its place."""
        self._show_programs(NO_PROGRAMS)

    def _show_programs(self, table: ProgramTable) -> None:
        rays = replace(self.state.rays, programs=table)
        if isinstance(rays.any_hit, str) and not table.find(ProgramKind.ANY_HIT, rays.any_hit):
            rays = replace(rays, any_hit=AnyHitProgram.ACCEPT)
        if isinstance(rays.intersection, str) and not table.find(ProgramKind.INTERSECTION, rays.intersection):
            rays = replace(rays, intersection=IntersectionProgram.SPHERE)
        self.store.replace(rays=rays)

    def set_repeat_calls(self, on: bool) -> None:
        """The debug switch: any-hit and intersection programs are called twice where the rules allow it (AH-7,
        PROC-8), which must change no hit."""
        self.store.replace(rays=replace(self.state.rays, repeat_calls=bool(on)))

    def set_shader_table(
        self, ray_contribution: int | None = None, multiplier: int | None = None, miss_index: int | None = None
    ) -> Refusal | None:
        """Set TraceRay's shader-table arguments: 4, 4 and 16 bits (HG-1, HG-2); None keeps a value."""
        rays = self.state.rays
        asked = (
            ("ray_contribution", "RayContributionToHitGroupIndex", ray_contribution, 0xF, "HG-1"),
            ("multiplier", "MultiplierForGeometryContributionToHitGroupIndex", multiplier, 0xF, "HG-1"),
            ("miss_index", "MissShaderIndex", miss_index, 0xFFFF, "HG-2"),
        )
        for name, field, value, limit, rule in asked:
            if value is None:
                continue
            if not 0 <= value <= limit:
                found = violation(rule, f"{field} is 0 to {limit}", field=field, value=value)
                return self._refuse(Refusal.of([found]))
            rays = replace(rays, **{name: int(value)})  # type: ignore[arg-type]
        self.store.replace(rays=rays)
        return None

    def ray_flags_as_hlsl(self) -> str:
        """The ray flags as HLSL source: ``RAY_FLAG_A | RAY_FLAG_B``."""
        return flags_as_hlsl(self.state.rays.ray_flags)

    def ray_desc_text(self) -> str:
        """The logged ray (else the image's middle one) as HLSL: a RayDesc and the TraceRay call with all arguments."""
        state, log = self.state, self.log
        if state.typed_ray is not None:
            origin, direction = state.typed_ray.origin, state.typed_ray.direction
            return ray_as_hlsl(origin, direction, state.typed_ray.settings(state.rays))
        elif log is not None and log.pixel is not None and log.source is not SourceKind.CAMERA:
            return ray_as_hlsl(log.origin, log.direction, log.rays)
        else:
            width, height = state.image_size
            pick = state.pick or Pick(width // 2, height // 2, width, height)
            ray = pixel_ray(state.camera, pick.width, pick.height, pick.x, pick.y)
            origin, direction = ray.origin[0], ray.direction[0]
        return ray_as_hlsl(origin, direction, state.rays)

    # Build settings

    def set_build_flag(self, level: str, flag: BuildFlag, on: bool) -> Refusal | None:
        """Set or clear a flag of the next build of ``"blas"`` or ``"tlas"``; refused by BF-* or as unavailable."""
        name, _ = LEVELS[level]
        word = int(getattr(self.state.build, name))
        return self.set_build_flags(level, word | int(flag) if on else word & ~int(flag))

    def set_build_flags(self, level: str, flags: BuildFlag | int | str) -> Refusal | None:
        """Set the whole word of a level; text as in ``set_ray_flags``."""
        name, _ = LEVELS[level]
        try:
            word = parse_flags(BuildFlag, flags) if isinstance(flags, str) else BuildFlag(int(flags))
        except ValueError as error:
            return self._refuse(Refusal(str(error)))
        build: BuildSettings = replace(self.state.build, **{name: word})
        if found := build_settings.check_build_settings(build, self.state.profile):
            return self._refuse(Refusal.of(found))
        self.store.replace(build=build)
        return None

    def unavailable_build_flags(self) -> dict[BuildFlag, str]:
        """Build flags that cannot be set now, each with the reason."""
        return build_settings.unavailable_build_flags(self.state.profile)

    def set_profile(self, profile: Profile) -> Refusal | None:
        """Change tier and Xbox; refused while a flag is set that the new profile does not know."""
        state = self.state
        found = check_ray_flags(state.rays.ray_flags, profile)
        found += build_settings.check_build_settings(state.build, profile)
        for instance in self._document.scene.instances if self._document else ():
            if broken := check_instance_flags(instance.flags, profile):
                found += broken
                break
        if found:
            return self._refuse(Refusal.of(found))
        self.store.replace(profile=profile)
        return None

    # Image

    def set_image_mode(self, name: str) -> Refusal | None:
        """Show another mode of ``shade.modes``; traced anew only when it needs counters that the picture has not."""
        if name not in modes.MODES:
            return self._refuse(Refusal(f"no image mode {name!r}: there are {', '.join(modes.MODES)}"))
        self.store.replace(image=replace(self.state.image, mode=name))
        return None

    def set_palette(self, name: str) -> Refusal | None:
        """Colour heat maps with another palette of ``shade.palettes``."""
        if name not in palettes.PALETTES:
            return self._refuse(Refusal(f"no palette {name!r}: there are {', '.join(palettes.PALETTES)}"))
        self.store.replace(image=replace(self.state.image, palette=name))
        return None

    def set_shading(self, closest_hit: str | None = None, miss: str | None = None) -> Refusal | None:
        """Choose the closest-hit and miss shading by name; None keeps what is there."""
        image = self.state.image
        for name, table, word in (
            (closest_hit, shadings.CLOSEST_HIT, "closest-hit"),
            (miss, shadings.MISS, "miss"),
        ):
            if name is not None and name not in table:
                return self._refuse(Refusal(f"no {word} shading {name!r}: there are {', '.join(table)}"))
        image = replace(image, closest_hit=closest_hit or image.closest_hit, miss=miss or image.miss)
        self.store.replace(image=image)
        return None

    def set_range(self, kind: RangeKind | str, low: float = 0.0, high: float = 1.0) -> Refusal | None:
        """Set which values get the palette's ends: ``automatic``; ``fixed`` values; or ``percentile`` (0 to 100)."""
        if str(kind) not in tuple(RangeKind):
            return self._refuse(Refusal(f"no range {str(kind)!r}: there are {', '.join(RangeKind)}"))
        kind = RangeKind(kind)
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            return self._refuse(Refusal(f"a range needs two finite numbers, the lower first: {low} to {high}"))
        if kind is RangeKind.PERCENTILE and not 0 <= low <= high <= 100:
            return self._refuse(Refusal(f"percentiles are 0 to 100: {low} to {high}"))
        image: ImageSettings = replace(self.state.image, range_kind=kind, range_low=float(low), range_high=float(high))
        self.store.replace(image=image)
        return None

    def set_image_size(self, width: int, height: int) -> Refusal | None:
        """Set the size of the traced image."""
        if width < 1 or height < 1 or width * height > MAX_PIXELS:
            return self._refuse(Refusal(f"an image of {width} x {height} cannot be traced"))
        self.store.replace(image_size=(int(width), int(height)))
        return None

    def trace_now(self) -> Job | None:
        """Trace the image of the present state; a live session does it by itself."""
        return self._start_image()

    # Camera

    def set_camera(self, camera: Camera) -> None:
        """Look through another camera."""
        self.store.replace(camera=camera)

    def use_camera(self, name: str | None = None) -> Refusal | None:
        """Look through a camera of the scene by name or number; None is its default one."""
        if self._document is None:
            return self._refuse(Refusal("no scene is open"))
        try:
            self.set_camera(documents.camera_named(self._document.scene, name))
        except RtviewerError as error:
            return self._refuse(Refusal.of_error(error))
        return None

    def fit_camera(self) -> None:
        """Move the camera back or forth, without turning it, until the whole scene is in view."""
        world = self.world
        self._fit(world.bounds if world else None)

    def focus_selection(self) -> None:
        """Move the camera, without turning it, until what is selected is in view; nothing selected fits the scene."""
        world = self.world
        bounds = selection_bounds(world, self.state.selection) if world else None
        if bounds is None:
            self.fit_camera()
        else:
            self._fit(bounds)

    def _fit(self, bounds: Any) -> None:
        camera = self.state.camera
        forward = camera.basis()[2]
        fitted = fitting_camera(bounds, (float(forward[0]), float(forward[1]), float(forward[2])), camera.vertical_fov)
        height = camera.orthographic_height
        if height is not None and bounds is not None:
            height = float(math.dist(bounds[0], bounds[1])) or 1.0
        self.set_camera(replace(fitted, up=camera.up, orthographic_height=height, name=""))

    # Picking and selection

    def pick_pixel(self, x: int, y: int, width: int | None = None, height: int | None = None) -> Refusal | None:
        """Log the ray of pixel (x, y) of an image of that size (default: the traced image's)."""
        size = (width or self.state.image_size[0], height or self.state.image_size[1])
        if not (0 <= x < size[0] and 0 <= y < size[1]):
            return self._refuse(Refusal(f"pixel {x},{y} is outside the {size[0]} x {size[1]} image"))
        self.store.replace(pick=Pick(int(x), int(y), *size), typed_ray=None)
        return None

    def clear_pick(self) -> None:
        """Log no ray."""
        self.store.replace(pick=None, typed_ray=None)

    def select(
        self, structure: int = -1, box: int = -1, instance: int = -1, geometry: int = -1, primitive: int = -1
    ) -> None:
        """Select a box of a structure's tree, or an instance, geometry or primitive (its box is then looked up)."""
        selection = Selection(structure, box, instance, geometry, primitive)
        world = self.world
        self.store.replace(selection=with_box(world, selection) if world else selection)

    def select_at(self, camera: Camera, width: int, height: int, x: int, y: int) -> Job | None:
        """Select, in the background, what a view shows at pixel (x, y): in world space, or in the scope's structure."""
        world, scope, rays = self.world, self.state.view.scope, self.state.rays
        if world is None:
            return None

        def work(_: Job) -> Selection:
            return pick_selection(world, scope, camera, width, height, x, y, rays)

        def show(selection: Selection) -> None:
            if self.world is world:
                self.store.replace(selection=selection)

        return self._submit(Lane.PICK, "picking", work, show)

    def set_view(self, **changes: Any) -> None:
        """Replace fields of ViewSettings."""
        self.store.replace(view=replace(self.state.view, **changes))

    def set_scope(self, structure: int) -> Refusal | None:
        """Show one bottom level in object space, or with -1 the world."""
        count = len(self.world.blases) if self.world else 0
        if not -1 <= structure < count:
            return self._refuse(Refusal(f"no structure {structure}: there are {count} bottom levels"))
        self.set_view(scope=structure)
        return None
