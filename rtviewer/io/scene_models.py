"""The rtviewer scene format as models: what keys there are, their types, ranges and defaults.

Every field's description is the text of the table in ``rtviewer/io/README.md``; a test compares the two.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from rtviewer.dxr.flags import GeometryFlag, InstanceFlag, parse_flags
from rtviewer.dxr.limits import (
    MAX_INSTANCE_CONTRIBUTION_TO_HIT_GROUP_INDEX,
    MAX_INSTANCE_ID,
    MAX_INSTANCE_MASK,
    MAX_SHADER_RECORD_STRIDE,
    SHADER_RECORD_BYTE_ALIGNMENT,
)
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.programs import USER_PREFIX, AnyHitProgram, IntersectionProgram, named_by_user, program_name
from rtviewer.dxr.rules import check_geometry_flags, check_instance_flags
from rtviewer.dxr.shader_table import ABSENT, AS_GIVEN, HitGroup, HitGroupTable, HitGroupType
from rtviewer.io.source_model import RaySourceModel

P = TypeVar("P", AnyHitProgram, IntersectionProgram)

MAX_INSTANCES_IN_A_FILE = 1_000_000
"""More than this from one pattern or file is refused before it is made."""

MAX_HIT_GROUPS = 1 << 16


class SceneModel(BaseModel):
    """Base of all tables: an unknown key is an error, so that a typing mistake never passes silently."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _flag_text(value: object) -> str:
    names = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
    if (isinstance(value, list) and len(names) < len(value)) or not isinstance(value, list | str):
        raise ValueError("flags are names, as in flags = ['OPAQUE']")
    return ", ".join(names)


def _profile(info: ValidationInfo) -> Profile:
    profile = info.context.get("profile") if isinstance(info.context, dict) else None
    return profile if isinstance(profile, Profile) else DEFAULT_PROFILE


def _geometry_flags(value: object, info: ValidationInfo) -> GeometryFlag:
    flags = value if isinstance(value, GeometryFlag) else parse_flags(GeometryFlag, _flag_text(value))
    found = check_geometry_flags(flags, _profile(info))
    if found:
        raise ValueError("; ".join(f"[{v.rule}] {v.message}" for v in found))
    return flags


def _instance_flags(value: object, info: ValidationInfo) -> InstanceFlag:
    flags = value if isinstance(value, InstanceFlag) else parse_flags(InstanceFlag, _flag_text(value))
    found = check_instance_flags(flags, _profile(info))
    if found:
        raise ValueError("; ".join(f"[{v.rule}] {v.message}" for v in found))
    return flags


def _program(kind: type[P], value: object) -> P | str:
    """A built-in program, or the name of a user's from ``user:NAME``."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and (name := named_by_user(value)) is not None:
        return name
    if isinstance(value, str) and value.upper().replace("-", "_") in kind.__members__:
        return kind[value.upper().replace("-", "_")]
    raise ValueError(f"not a built-in program; there are {', '.join(kind.__members__)}, or user:NAME")


def _in_range(largest: int, rule: str) -> AfterValidator:
    def check(value: int) -> int:
        if not 0 <= value <= largest:
            raise ValueError(f"[{rule}] must be between 0 and {largest:#x}, found {value}")
        return value

    return AfterValidator(check)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"[INST-6] transforms must be finite, found {value}")
    return value


FiniteFloat = Annotated[float, AfterValidator(_finite)]
Vector3 = tuple[float, float, float]
FiniteVector3 = tuple[FiniteFloat, FiniteFloat, FiniteFloat]
Row4 = tuple[float, float, float, float]
GeometryFlags = Annotated[GeometryFlag, BeforeValidator(_geometry_flags)]
InstanceFlags = Annotated[InstanceFlag, BeforeValidator(_instance_flags)]
Mask = Annotated[int, _in_range(MAX_INSTANCE_MASK, "LIM-4")]
InstanceId = Annotated[int, _in_range(MAX_INSTANCE_ID, "LIM-4")]
Contribution = Annotated[int, _in_range(MAX_INSTANCE_CONTRIBUTION_TO_HIT_GROUP_INDEX, "LIM-4")]
Count = Annotated[int, Field(ge=1, le=4096)]


class Rotation(SceneModel):
    axis: FiniteVector3 = Field(description="direction to turn about, any length but 0")
    degrees: FiniteFloat = Field(description="right-handed angle")

    @model_validator(mode="after")
    def _axis_has_length(self) -> Rotation:
        if not any(self.axis):
            raise ValueError("axis must not be (0, 0, 0)")
        return self

    def matrix(self) -> NDArray[np.float64]:
        """(3, 3) float64."""
        axis = np.asarray(self.axis, np.float64)
        axis = axis / np.abs(axis).max()
        x, y, z = axis / np.linalg.norm(axis)
        turn = math.radians(self.degrees % 360.0)
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        matrix: NDArray[np.float64] = np.eye(3) + math.sin(turn) * cross + (1.0 - math.cos(turn)) * (cross @ cross)
        return matrix


class Transform(SceneModel):
    """Scale, then the rotations in order, then translate; or the matrix itself."""

    matrix: tuple[Row4, Row4, Row4] | None = Field(None, description="3 rows of 4 numbers; replaces all other keys")
    scale: float | Vector3 = Field(1.0, description="one factor or one per axis; negative ones mirror")
    rotate: Rotation | list[Rotation] = Field([], description="`{ axis = [x, y, z], degrees = d }` or a list of them")
    translate: Vector3 = Field((0.0, 0.0, 0.0), description="added last")

    @model_validator(mode="after")
    def _one_way(self) -> Transform:
        if self.matrix is not None and self.model_fields_set & {"scale", "rotate", "translate"}:
            raise ValueError("matrix cannot be combined with scale, rotate or translate")
        return self

    def to_matrix(self) -> NDArray[np.float64]:
        """(3, 4) float64, object to parent."""
        if self.matrix is not None:
            return np.asarray(self.matrix, np.float64)
        linear = np.diag(np.broadcast_to(np.asarray(self.scale, np.float64), (3,)))
        for rotation in self.rotate if isinstance(self.rotate, list) else [self.rotate]:
            linear = rotation.matrix() @ linear
        return np.concatenate([linear, np.asarray(self.translate, np.float64)[:, None]], axis=1)


class QuadGenerator(SceneModel):
    kind: Literal["quad"]
    origin: Vector3 = Field((-1.0, -1.0, 0.0), description="one corner")
    u: Vector3 = Field((2.0, 0.0, 0.0), description="first edge")
    v: Vector3 = Field((0.0, 2.0, 0.0), description="second edge; the front is on the side of u x v")
    divisions: Annotated[int, Field(ge=1, le=2048)] = Field(1, description="cells along each edge")


class BoxGenerator(SceneModel):
    kind: Literal["box"]
    low: Vector3 = Field((-1.0, -1.0, -1.0), description="smallest corner")
    high: Vector3 = Field((1.0, 1.0, 1.0), description="largest corner")


class SphereGenerator(SceneModel):
    kind: Literal["sphere"]
    subdivisions: Annotated[int, Field(ge=0, le=9)] = Field(3, description="20 * 4^n triangles")
    radius: float = Field(1.0, description="scene units")
    centre: Vector3 = Field((0.0, 0.0, 0.0), description="scene units")


class TorusGenerator(SceneModel):
    kind: Literal["torus"]
    major: float = Field(1.0, description="radius of the ring, around y")
    minor: float = Field(0.35, description="radius of the tube")
    segments: Annotated[int, Field(ge=3, le=4096)] = Field(48, description="cells along the ring")
    sides: Annotated[int, Field(ge=3, le=4096)] = Field(24, description="cells around the tube")


class BowlGenerator(SceneModel):
    kind: Literal["bowl"]
    radius: float = Field(1.0, description="scene units")
    opening: Annotated[float, Field(gt=0, lt=180)] = Field(90.0, description="degrees from -y to the rim")
    segments: Annotated[int, Field(ge=3, le=4096)] = Field(32, description="cells around")
    rings: Annotated[int, Field(ge=1, le=4096)] = Field(12, description="cells from pole to rim")


class WaveGenerator(SceneModel):
    kind: Literal["wave"]
    columns: Annotated[int, Field(ge=1, le=4096)] = Field(64, description="cells along x")
    rows: Annotated[int, Field(ge=1, le=4096)] = Field(64, description="cells along z")
    size: float = Field(10.0, description="edge of the square")
    height: float = Field(0.4, description="of the ripples")
    waves: float = Field(3.0, description="ripples from the middle to the edge")
    phase: float = Field(0.0, description="radians")


class SoupGenerator(SceneModel):
    kind: Literal["soup"]
    count: Annotated[int, Field(ge=1, le=4_000_000)] = Field(1000, description="triangles")
    extent: float = Field(10.0, description="edge of the cube that holds the centres")
    size: float = Field(0.5, description="how far corners lie from the centre, per axis")
    seed: Annotated[int, Field(ge=0)] = Field(1, description="same seed, same triangles")


class CityGenerator(SceneModel):
    kind: Literal["city"]
    blocks: Annotated[int, Field(ge=1, le=512)] = Field(8, description="houses along each side")
    spacing: float = Field(2.0, description="from house to house")
    seed: Annotated[int, Field(ge=0)] = Field(1, description="same seed, same houses")


class RandomBoxesGenerator(SceneModel):
    kind: Literal["random_boxes"]
    count: Annotated[int, Field(ge=1, le=4_000_000)] = Field(100, description="boxes")
    extent: float = Field(10.0, description="edge of the cube that holds the centres")
    smallest: float = Field(0.2, description="shortest edge")
    largest: float = Field(0.6, description="longest edge")
    seed: Annotated[int, Field(ge=0)] = Field(1, description="same seed, same boxes")


class LatticeBoxesGenerator(SceneModel):
    kind: Literal["lattice_boxes"]
    counts: tuple[Count, Count, Count] = Field((3, 3, 3), description="boxes along x, y, z")
    spacing: float = Field(1.0, description="from centre to centre")
    edge: float = Field(0.8, description="of every box")

    @model_validator(mode="after")
    def _not_too_many(self) -> LatticeBoxesGenerator:
        return _limit_product(self, self.counts, 4_000_000)


G = TypeVar("G", bound=SceneModel)


def _limit_product(model: G, counts: tuple[int, int, int], largest: int) -> G:
    if math.prod(counts) > largest:
        raise ValueError(f"counts give {math.prod(counts)} in all, at most {largest} are made")
    return model


TriangleGenerator = (
    QuadGenerator | BoxGenerator | SphereGenerator | TorusGenerator | BowlGenerator | WaveGenerator | SoupGenerator
    | CityGenerator
)  # fmt: skip
BoxesGenerator = RandomBoxesGenerator | LatticeBoxesGenerator
Generator = Annotated[TriangleGenerator | BoxesGenerator, Field(discriminator="kind")]


class GeometryModel(SceneModel):
    type: Literal["triangles", "aabbs"] = Field("triangles", description="one structure holds one kind [BLD-2]")
    name: str = Field("", description="for people")
    flags: GeometryFlags = Field(GeometryFlag.NONE, description="list of geometry flag names [GF-1]")
    file: str | None = Field(None, description="OBJ, PLY or STL beside the scene file; triangles only")
    generator: Generator | None = Field(None, description='`{ kind = "sphere", ... }`, see below')
    vertices: list[Vector3] | None = Field(None, description="positions, `[[x, y, z], ...]`")
    indices: list[tuple[int, int, int]] | None = Field(None, description="vertex numbers; without, consecutive triples")
    aabbs: list[tuple[float, float, float, float, float, float]] | None = Field(
        None, description="`[[min x, y, z, max x, y, z], ...]`"
    )
    reverse: bool = Field(False, description="turn the winding of every triangle round")
    transform: Transform | None = Field(
        None, description="applied to the vertices at build time [GEO-7]; triangles only"
    )

    @model_validator(mode="after")
    def _one_source(self) -> GeometryModel:
        given = [k for k in ("file", "generator", "vertices", "aabbs") if getattr(self, k) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"give exactly one of file, generator, vertices, aabbs; found {found}")
        if self.indices is not None and self.vertices is None:
            raise ValueError("indices belong to vertices")
        makes_boxes = self.aabbs is not None or isinstance(self.generator, BoxesGenerator)
        if makes_boxes != (self.type == "aabbs"):
            raise ValueError(f"type is {self.type!r}, but {given[0]} gives {'aabbs' if makes_boxes else 'triangles'}")
        if makes_boxes and (self.transform is not None or self.reverse):
            raise ValueError("[GEO-10] boxes have no transform and no winding")
        return self


class BlasModel(SceneModel):
    name: str = Field(min_length=1, description="instances refer to it; unique")
    geometry: list[GeometryModel] = Field([], description="in order; an empty structure is legal [BLD-11]")

    @model_validator(mode="after")
    def _one_kind(self) -> BlasModel:
        if len({geometry.type for geometry in self.geometry}) > 1:
            raise ValueError("[BLD-2] one structure holds triangles or aabbs, not both")
        return self


def _identity() -> Transform:
    return Transform.model_validate({})


class _Placed(SceneModel):
    blas: str = Field(description='name of a `[[blas]]`, or `""` for none [INST-2]')
    mask: Mask = Field(0xFF, description="0 to 0xFF [LIM-4]; 0 is never hit [INST-3]")
    id: InstanceId = Field(0, description="InstanceID below 2^24 [LIM-4]; patterns count up from it")
    contribution: Contribution | None = Field(
        None, description="to the hit-group index [LIM-4]; default 0, for boxes 1 (the second default record)"
    )
    flags: InstanceFlags = Field(InstanceFlag.NONE, description="list of instance flag names [IF-1] [IF-2]")
    transform: Transform = Field(default_factory=_identity, description="object to world [INST-1]; finite [INST-6]")


class InstanceModel(_Placed):
    name: str = Field("", description="for people")


class GridPattern(_Placed):
    kind: Literal["grid"]
    counts: tuple[Count, Count, Count] = Field(description="instances along x, y, z; x fastest")
    spacing: FiniteVector3 = Field((1.0, 1.0, 1.0), description="from one to the next")
    centre: FiniteVector3 = Field((0.0, 0.0, 0.0), description="of the grid")

    @model_validator(mode="after")
    def _not_too_many(self) -> GridPattern:
        return _limit_product(self, self.counts, MAX_INSTANCES_IN_A_FILE)


class ScatterPattern(_Placed):
    kind: Literal["scatter"]
    count: Annotated[int, Field(ge=1, le=MAX_INSTANCES_IN_A_FILE)] = Field(description="instances")
    extent: FiniteVector3 = Field((10.0, 0.0, 10.0), description="edges of the box that holds them")
    scale: tuple[FiniteFloat, FiniteFloat] = Field((1.0, 1.0), description="smallest and largest factor")
    centre: FiniteVector3 = Field((0.0, 0.0, 0.0), description="of the box")
    seed: Annotated[int, Field(ge=0)] = Field(1, description="same seed, same places")


class SphereflakePattern(_Placed):
    kind: Literal["sphereflake"]
    depth: Annotated[int, Field(ge=0, le=6)] = Field(
        4, description="(9^(depth + 1) - 1) / 8 instances of a unit sphere"
    )
    shrink: Annotated[float, Field(gt=0, le=1)] = Field(1 / 3, description="radius of a child by that of its parent")
    centre: FiniteVector3 = Field((0.0, 0.0, 0.0), description="of the first sphere")


Pattern = Annotated[GridPattern | ScatterPattern | SphereflakePattern, Field(discriminator="kind")]


class CameraModel(SceneModel):
    name: str = Field("", description="for `--camera`")
    position: FiniteVector3 = Field(description="of the eye")
    look_at: FiniteVector3 = Field(description="a point in the middle of the picture")
    up: FiniteVector3 = Field((0.0, 1.0, 0.0), description="direction that is up in the picture")
    vertical_fov: Annotated[float, Field(gt=0, lt=180)] = Field(45.0, description="degrees")
    orthographic_height: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="scene units; makes the camera orthographic"
    )

    @model_validator(mode="after")
    def _looks_somewhere(self) -> CameraModel:
        if self.position == self.look_at:
            raise ValueError("look_at must differ from position")
        if not any(self.up):
            raise ValueError("up must not be (0, 0, 0)")
        return self


AnyHit = Annotated[AnyHitProgram | str, BeforeValidator(lambda value: _program(AnyHitProgram, value))]
Intersection = Annotated[IntersectionProgram | str, BeforeValidator(lambda value: _program(IntersectionProgram, value))]


def _choice(kind: type[P], value: object) -> str:
    """A program's name, ``as_given`` or ``none``."""
    if isinstance(value, str) and value.lower().replace("-", "_") in SPECIAL_PROGRAMS:
        return value.lower().replace("-", "_")
    try:
        return program_name(_program(kind, value))
    except ValueError as error:
        raise ValueError(f"{error}, or as_given, or none") from error


SPECIAL_PROGRAMS = {"as_given": AS_GIVEN, "none": ABSENT}


def _written(kind: type[P], program: int | str) -> str:
    """A record's program as files have it."""
    special = {number: name for name, number in SPECIAL_PROGRAMS.items()}
    if isinstance(program, str):
        return USER_PREFIX + program
    return special.get(int(program)) or program_name(kind(program))


HIT_GROUP_TYPES = {
    "triangles": HitGroupType.TRIANGLES,
    "procedural": HitGroupType.PROCEDURAL_PRIMITIVE,
    "null": HitGroupType.NULL,
}
AnyHitChoice = Annotated[str, BeforeValidator(lambda value: _choice(AnyHitProgram, value))]
IntersectionChoice = Annotated[str, BeforeValidator(lambda value: _choice(IntersectionProgram, value))]


class HitGroupModel(SceneModel):
    """A record of the hit-group table; also an entry of a manifest."""

    name: str = Field("", description="for people")
    type: Literal["triangles", "procedural", "null"] = Field(
        "triangles", description="what geometry may use it [TRAV-5]; `null` runs nothing [HG-3]"
    )
    any_hit: AnyHitChoice | None = Field(
        None, description='a program, `"as_given"` (as rays ask for; the default) or `"none"`: acts opaque [OPQ-5]'
    )
    intersection: IntersectionChoice | None = Field(
        None, description='likewise, for procedural only [TRAV-5]; default `"as_given"`'
    )
    closest_hit: bool | None = Field(None, description="whether there is one; default `true`, for null `false`")

    @model_validator(mode="after")
    def _fits_its_type(self) -> HitGroupModel:
        if self.type == "null" and (self.closest_hit or {self.any_hit, self.intersection} - {None, "none"}):
            raise ValueError("[HG-3] a null hit group has no shaders")
        if self.type == "triangles" and self.intersection not in (None, "none"):
            raise ValueError("[TRAV-5] a hit group for triangles has no intersection shader")
        if self.type == "procedural" and self.intersection == "none":
            raise ValueError("[TRAV-5] a hit group for procedurals has an intersection shader; NOTHING reports no hit")
        return self

    def to_hit_group(self) -> HitGroup:
        """The record, with what was left out filled in by its type."""
        any_hit = self.any_hit or ("none" if self.type == "null" else "as_given")
        intersection = self.intersection or ("as_given" if self.type == "procedural" else "none")
        return HitGroup(
            HIT_GROUP_TYPES[self.type],
            SPECIAL_PROGRAMS[any_hit] if any_hit in SPECIAL_PROGRAMS else _program(AnyHitProgram, any_hit),
            SPECIAL_PROGRAMS[intersection]
            if intersection in SPECIAL_PROGRAMS
            else _program(IntersectionProgram, intersection),
            self.closest_hit if self.closest_hit is not None else self.type != "null",
            self.name,
        )

    @classmethod
    def of(cls, record: HitGroup) -> HitGroupModel:
        """The record as written to files, nothing left out. Raises pydantic's ValidationError for one that a reader
        would refuse."""
        fields = {
            "name": record.name,
            "type": next(name for name, kind in HIT_GROUP_TYPES.items() if kind is record.type),
            "any_hit": _written(AnyHitProgram, record.any_hit),
            "intersection": _written(IntersectionProgram, record.intersection),
            "closest_hit": record.closest_hit and record.type is not HitGroupType.NULL,
        }
        return cls.model_validate(fields)


def _stride(value: int) -> int:
    if value not in range(0, MAX_SHADER_RECORD_STRIDE + 1, SHADER_RECORD_BYTE_ALIGNMENT):
        step, largest = SHADER_RECORD_BYTE_ALIGNMENT, MAX_SHADER_RECORD_STRIDE
        raise ValueError(f"[LIM-7] must be a multiple of {step} from 0 to {largest}, found {value}")
    return value


HitGroups = Annotated[list[HitGroupModel], Field(max_length=MAX_HIT_GROUPS)]
HitGroupStride = Annotated[int, AfterValidator(_stride)]


def hit_group_table(records: list[HitGroupModel], stride: int) -> HitGroupTable:
    return HitGroupTable(tuple(record.to_hit_group() for record in records), stride)


class SceneFile(SceneModel):
    name: str = Field("", description="shown in the title; default: the folder's name")
    description: str = Field("", description="what the scene exercises")
    any_hit: AnyHit = Field(AnyHitProgram.ACCEPT, description="any-hit program of the scene, by name")
    intersection: Intersection = Field(
        IntersectionProgram.SPHERE, description="intersection program of procedural geometry, by name"
    )
    programs: str = Field(
        "", description="file of a user's programs that the scene means by `user:NAME`; never loaded unasked"
    )
    blas: list[BlasModel] = Field([], description="bottom-level structures")
    instance: list[InstanceModel] = Field([], description="placements, in order")
    instance_pattern: list[Pattern] = Field([], description="many placements at once, after all `[[instance]]`")
    hit_group: HitGroups = Field([], description="the hit-group table, in order; without, geometry has all shaders")
    hit_group_stride: HitGroupStride = Field(
        SHADER_RECORD_BYTE_ALIGNMENT, description="of the table [LIM-7]; 0: all indices mean the first record [HG-3]"
    )
    camera: list[CameraModel] = Field([], description="the first is the one to open with")
    ray_source: RaySourceModel | None = Field(None, description="whose rays the picture opens with; else the camera's")

    @model_validator(mode="after")
    def _names_are_unique(self) -> SceneFile:
        names = [blas.name for blas in self.blas]
        twice = sorted({name for name in names if names.count(name) > 1}) if len(names) < 10_000 else []
        if twice:
            raise ValueError(f"two [[blas]] are called {twice[0]!r}; names must be unique")
        return self
