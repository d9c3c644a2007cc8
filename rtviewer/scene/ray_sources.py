"""Where rays come from: the one table of sources and their parameters.

The window's controls, options of the command line, help, keys of scene files and tests are made from ``SOURCES``. A
source that makes images starts from the camera: what a camera ray hits is a *receiver*, and the source sends its own
rays from there (``session.source_rays``). Nothing here traces.
"""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector = tuple[float, float, float]

MAX_SAMPLES = 64
MAX_SEED = 0xFFFFFFFF
_LARGEST = 3.4028234663852886e38
"""float32's largest number: rays are float32."""


class SourceKind(StrEnum):
    """The sources by name."""

    CAMERA = "camera"
    SHADOW = "shadow"
    DIFFUSE = "diffuse"
    OCCLUSION = "occlusion"
    TYPED = "typed"
    FILE = "file"


class ParameterKind(StrEnum):
    """What a parameter's value is, and so which control, option and check it gets."""

    POSITION = "position"
    DIRECTION = "direction"
    LENGTH = "length"
    COUNT = "count"
    PATH = "path"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a source. ``tip`` says what it is and ends a sentence; ``low``, ``high``: ends of a count.

    ``automatic``: what None means, empty where there is no None.
    """

    name: str
    label: str
    kind: ParameterKind
    tip: str
    default: Any
    low: int = 0
    high: int = 0
    automatic: str = ""


def _about(kind: ParameterKind, label: str, tip: str, **more: Any) -> dict[str, Any]:
    """What Parameter says beside name and default, as a field's metadata."""
    return {"label": label, "kind": kind, "tip": tip, **more}


@dataclass(frozen=True)
class CameraRays:
    """One ray through the centre of every pixel."""


@dataclass(frozen=True)
class ShadowRays:
    """From every receiver to a light: the direction reaches from one to the other, so that the light is at t = 1."""

    light: Vector | None = field(
        default=None,
        metadata=_about(
            ParameterKind.POSITION, "Light", "position of the light in world space", automatic="above the scene"
        ),
    )


@dataclass(frozen=True)
class DiffuseRays:
    """One bounce from every receiver, in a direction drawn with the cosine to its normal."""

    seed: int = field(
        default=1, metadata=_about(ParameterKind.COUNT, "Seed", "another seed, other directions", high=MAX_SEED)
    )


@dataclass(frozen=True)
class OcclusionRays:
    """Short rays into the half space above every receiver; the fraction that meets nothing is its openness."""

    radius: float | None = field(
        default=None,
        metadata=_about(
            ParameterKind.LENGTH, "Radius", "length of the rays in scene units", automatic="a fifth of the scene"
        ),
    )
    samples: int = field(
        default=8, metadata=_about(ParameterKind.COUNT, "Samples", "rays per pixel", low=1, high=MAX_SAMPLES)
    )
    shown: int = field(
        default=0,
        metadata=_about(
            ParameterKind.COUNT, "Shown", "sample whose hit, counters and log are shown", high=MAX_SAMPLES - 1
        ),
    )
    seed: int = field(
        default=1, metadata=_about(ParameterKind.COUNT, "Seed", "another seed, other directions", high=MAX_SEED)
    )


@dataclass(frozen=True)
class TypedRays:
    """One ray as the user typed it."""

    origin: Vector = field(
        default=(0.0, 0.0, 0.0),
        metadata=_about(ParameterKind.POSITION, "Origin", "origin of a typed ray, in world space"),
    )
    direction: Vector = field(default=(0.0, 0.0, -1.0), metadata=_about(ParameterKind.DIRECTION, "Direction",
        "its direction, not normalised: t counts in its lengths (RAY-1)"))  # fmt: skip


@dataclass(frozen=True)
class FileRays:
    """Rays that an application recorded, as a list."""

    path: str = field(
        default="", metadata=_about(ParameterKind.PATH, "File", "file of rays (.npz or .csv) to trace as a list")
    )


CAMERA = CameraRays()

ImageSource: TypeAlias = CameraRays | ShadowRays | DiffuseRays | OcclusionRays
"""A source that makes an image."""


@dataclass(frozen=True)
class SourceSpec:
    """A row of the table. ``ray``: what one of its rays is called; ``tip``: a sentence for people."""

    kind: SourceKind
    label: str
    ray: str
    tip: str
    settings: type[Any]
    has_image: bool

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return parameters_of(self.settings)


SOURCES: dict[SourceKind, SourceSpec] = {
    spec.kind: spec
    for spec in (
        SourceSpec(
            SourceKind.CAMERA, "Camera", "camera ray", "One ray through the centre of every pixel", CameraRays, True
        ),
        SourceSpec(
            SourceKind.SHADOW, "Shadow", "shadow ray", "From what the camera sees to a light that can be moved",
            ShadowRays, True,
        ),
        SourceSpec(
            SourceKind.DIFFUSE, "Diffuse bounce", "bounce ray",
            "One bounce from what the camera sees, in a direction drawn with the cosine to the normal", DiffuseRays,
            True,
        ),
        SourceSpec(
            SourceKind.OCCLUSION, "Ambient occlusion", "occlusion ray",
            "Short rays from what the camera sees: which fraction meets nothing", OcclusionRays, True,
        ),
        SourceSpec(SourceKind.TYPED, "Single ray", "typed ray", "One ray by origin and direction", TypedRays, False),
        SourceSpec(SourceKind.FILE, "File of rays", "listed ray", "Rays that an application recorded", FileRays, False),
    )
}  # fmt: skip
"""All sources, in the order they are offered."""

IMAGE_SOURCES: tuple[SourceSpec, ...] = tuple(spec for spec in SOURCES.values() if spec.has_image)
_SPEC_OF = {spec.settings: spec for spec in SOURCES.values()}


def parameters_of(settings: type[Any]) -> tuple[Parameter, ...]:
    """The parameters of a source's settings, in order."""

    def made(item: Field[Any]) -> Parameter:
        return Parameter(item.name, default=item.default, **item.metadata)

    return tuple(made(item) for item in fields(settings))


def spec_of(source: object) -> SourceSpec:
    """The row of a source's settings."""
    return _SPEC_OF[type(source)]


def check_source(source: object) -> str:
    """Why a source's settings cannot be used, as a sentence; empty when they can."""
    for parameter in spec_of(source).parameters:
        value = getattr(source, parameter.name)
        if value is None and parameter.automatic:
            continue
        if problem := _PROBLEMS[parameter.kind](value, parameter):
            return f"{parameter.label.lower()}: {problem}"
    if isinstance(source, OcclusionRays) and source.shown >= source.samples:
        return f"shown: the samples are 0 to {source.samples - 1}, found {source.shown}"
    return ""


def _vector_problem(value: Any, _: Parameter) -> str:
    numbers = isinstance(value, tuple | list) and len(value) == 3 and all(isinstance(v, int | float) for v in value)
    if numbers and all(math.isfinite(v) and abs(v) <= _LARGEST for v in value):
        return ""
    return f"three finite numbers that float32 can hold are needed, found {value!r}"


def _length_problem(value: Any, _: Parameter) -> str:
    if isinstance(value, int | float) and value > 0 and (math.isinf(value) or value <= _LARGEST):
        return ""
    return f"a number above 0 that float32 can hold, or inf, is needed, found {value!r}"


def _count_problem(value: Any, parameter: Parameter) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and parameter.low <= value <= parameter.high:
        return ""
    return f"a whole number from {parameter.low} to {parameter.high} is needed, found {value!r}"


_PROBLEMS: dict[ParameterKind, Any] = {
    ParameterKind.POSITION: _vector_problem,
    ParameterKind.DIRECTION: lambda value, parameter: "",  # rules RAY-3 and RAY-5 judge rays
    ParameterKind.LENGTH: _length_problem,
    ParameterKind.COUNT: _count_problem,
    ParameterKind.PATH: lambda value, parameter: "" if isinstance(value, str) and value else "a file is needed",
}


def resolved(source: ImageSource, bounds: NDArray[np.float64] | None) -> ImageSource:
    """The same source with every automatic parameter filled in from the scene's ``bounds`` (2, 3), None if empty."""
    if isinstance(source, ShadowRays) and source.light is None:
        return replace(source, light=default_light(bounds))
    if isinstance(source, OcclusionRays) and source.radius is None:
        return replace(source, radius=default_radius(bounds))
    return source


def default_light(bounds: NDArray[np.float64] | None) -> Vector:
    """Aside of the middle and high: inside a room that is as high as wide, well above a scene that is flat."""
    if bounds is None:
        return 0.0, 2.0, 0.0
    low, high = bounds
    x, y, z = (high - low).tolist()
    centre = (low + high) * 0.5
    rise = 0.4 * y if y >= 0.5 * max(x, z) else 0.5 * max(x, z)
    place = centre + np.array([0.2 * x, rise, 0.2 * z])
    return float(np.float32(place[0])), float(np.float32(place[1])), float(np.float32(place[2]))


def default_radius(bounds: NDArray[np.float64] | None) -> float:
    """A fifth of the scene's diagonal."""
    diagonal = float(np.linalg.norm(bounds[1] - bounds[0])) if bounds is not None else 0.0
    return float(np.float32(0.2 * diagonal)) or 1.0
