"""The application's settings: frozen values, replaced whole. What a picture needs beside the document."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from rtviewer.dxr.flags import BuildFlag, RayFlag
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.programs import (
    NO_PROGRAMS,
    AnyHitChoice,
    AnyHitProgram,
    IntersectionChoice,
    IntersectionProgram,
    ProgramTable,
)
from rtviewer.dxr.verdicts import VERDICTS, EventKind
from rtviewer.scene.camera import Camera
from rtviewer.scene.ray_sources import (
    CAMERA,
    CameraRays,
    DiffuseRays,
    ImageSource,
    OcclusionRays,
    ShadowRays,
    SourceKind,
)


@dataclass(frozen=True)
class RaySettings:
    """What every ray of the picture is traced with: the ray-flags pane. Always legal; commands see to it.

    A str as program is the name of one in ``programs``, the user's file that is loaded; a scene may name one that is
    not. ``repeat_calls``: the debug switch of AH-7 and PROC-8.
    """

    ray_flags: RayFlag = RayFlag.NONE
    mask: int = 0xFF
    t_min: float = 0.0
    t_max: float = float("inf")
    ray_contribution: int = 0
    multiplier: int = 1
    miss_index: int = 0
    any_hit: AnyHitChoice = AnyHitProgram.ACCEPT
    intersection: IntersectionChoice = IntersectionProgram.SPHERE
    programs: ProgramTable = NO_PROGRAMS
    repeat_calls: bool = False


@dataclass(frozen=True)
class SourceSettings:
    """Where the picture's rays come from. The source of ``kind`` is used; the others keep what was set for them.

    ``logs_camera_ray``: of another source than the camera, a picked pixel's log is about the camera ray that found
    where the source's ray starts.
    """

    kind: SourceKind = SourceKind.CAMERA
    camera: CameraRays = CAMERA
    shadow: ShadowRays = field(default_factory=ShadowRays)
    diffuse: DiffuseRays = field(default_factory=DiffuseRays)
    occlusion: OcclusionRays = field(default_factory=OcclusionRays)
    logs_camera_ray: bool = False

    @property
    def active(self) -> ImageSource:
        """The settings of the source that is used."""
        return self.of(self.kind)

    def of(self, kind: SourceKind) -> ImageSource:
        """The settings of a source that makes images."""
        source: ImageSource = getattr(self, kind.value)
        return source

    @classmethod
    def using(cls, source: ImageSource, kind: SourceKind) -> SourceSettings:
        """Defaults but for one source, which is used."""
        return cls(kind=kind).with_source(source, kind)

    def with_source(self, source: ImageSource, kind: SourceKind) -> SourceSettings:
        """The same with other settings of one source."""
        return replace(self, **{kind.value: source})  # type: ignore[arg-type]


@dataclass(frozen=True)
class LoggedRay:
    """A ray that is logged for its own sake: typed, pinned, or of the list of rays.

    None is what the ray settings say. ``source``: whose ray it is; ``list_index``: its position in the list, -1.
    """

    origin: tuple[float, float, float]
    direction: tuple[float, float, float]
    t_min: float | None = None
    t_max: float | None = None
    ray_flags: RayFlag | None = None
    mask: int | None = None
    source: SourceKind = SourceKind.TYPED
    list_index: int = -1

    def settings(self, rays: RaySettings) -> RaySettings:
        """``rays`` with what this ray has of its own."""
        own = {name: getattr(self, name) for name in ("t_min", "t_max", "ray_flags", "mask")}
        return replace(rays, **{name: value for name, value in own.items() if value is not None})


@dataclass(frozen=True)
class BuildSettings:
    """Build flags of the next build; a structure's own flags are read from the structure."""

    blas_flags: BuildFlag = BuildFlag.NONE
    tlas_flags: BuildFlag = BuildFlag.NONE


class RangeKind(StrEnum):
    AUTOMATIC = "automatic"
    FIXED = "fixed"
    PERCENTILE = "percentile"


@dataclass(frozen=True)
class ImageSettings:
    """The trace view: which mode (``shade.modes``) and how its values become colours."""

    mode: str = "shaded"
    palette: str = "viridis"
    range_kind: RangeKind = RangeKind.AUTOMATIC
    range_low: float = 0.0
    range_high: float = 1.0
    closest_hit: str = "lambert"
    """Names of ``shade.shadings``: what mode ``shaded`` runs; likewise ``miss``."""
    miss: str = "sky"


@dataclass(frozen=True)
class ViewSettings:
    """The structure view. ``depth_low`` and ``depth_high``: levels of boxes drawn, inclusive; -1 for all below."""

    show_geometry: bool = True
    show_wireframe: bool = False
    show_boxes: bool = True
    show_instance_boxes: bool = False
    show_rays: bool = True
    depth_low: int = 0
    depth_high: int = -1
    scope: int = -1
    """Structure shown: -1 the top level (world space), else the index of a bottom level (object space)."""
    show_histogram: bool = True
    """Whether the trace view shows the spread of a heat map's numbers."""
    hidden_instances: frozenset[int] = frozenset()
    """Instances that the structure view leaves out; tracing knows nothing of it."""


@dataclass(frozen=True)
class Selection:
    """What is selected. ``structure``: -1 top level, else bottom-level index. ``box``: box number in that structure's
    Tree, -1 for none. The rest names an instance, geometry and primitive, -1 where it does not apply."""

    structure: int = -1
    box: int = -1
    instance: int = -1
    geometry: int = -1
    primitive: int = -1


@dataclass(frozen=True)
class Pick:
    """The pixel whose ray is logged, in the image of ``width`` x ``height``."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Expected:
    """What the user expected the logged ray to hit. ``geometry`` and ``primitive`` are -1 where any will do."""

    instance: int
    geometry: int = -1
    primitive: int = -1

    @property
    def text(self) -> str:
        """``instance 12, geometry 0, primitive 5``."""
        parts = [("instance", self.instance), ("geometry", self.geometry), ("primitive", self.primitive)]
        return ", ".join(f"{name} {number}" for name, number in parts if number >= 0)


@dataclass(frozen=True)
class LogFilter:
    """Which events of a ray's log are shown, stepped through and copied: by kind and by family of the verdict."""

    kinds: frozenset[EventKind] = frozenset(EventKind)
    families: frozenset[str] = frozenset(meaning.family for meaning in VERDICTS.values())


@dataclass(frozen=True)
class State:
    profile: Profile = DEFAULT_PROFILE
    rays: RaySettings = field(default_factory=RaySettings)
    build: BuildSettings = field(default_factory=BuildSettings)
    image: ImageSettings = field(default_factory=ImageSettings)
    view: ViewSettings = field(default_factory=ViewSettings)
    selection: Selection = field(default_factory=Selection)
    camera: Camera = field(default_factory=lambda: Camera((0.0, 0.0, 5.0), (0.0, 0.0, 0.0)))
    pick: Pick | None = None
    image_size: tuple[int, int] = (960, 540)
    """Width and height of the traced image."""
    typed_ray: LoggedRay | None = None
    """A ray of its own; when there is one, the log is about it and not about ``pick``."""
    source: SourceSettings = field(default_factory=SourceSettings)
    log_position: int = -1
    """Event of the log that the user has stepped to; -1: the whole log is shown."""
    log_filter: LogFilter = field(default_factory=LogFilter)
    expected: Expected | None = None
    """What the user asked "why not this?" about."""
