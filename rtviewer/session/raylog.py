"""One ray, hit by hit: the events of its walk as rows with numbers, rules and sentences, and its result.

Events come from the same loop as the image (``trace.walk``); nothing is decided here. Rows are made on demand, so a log
of a million events costs what is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.counters import X_RAY_COUNTERS, XRayCounter
from rtviewer.dxr.flags import HitKind, format_flags
from rtviewer.dxr.profile import DEFAULT_PROFILE, Profile
from rtviewer.dxr.rules import check_ray_flags, check_ray_interval, require
from rtviewer.dxr.verdicts import VERDICTS, Counter, EventKind, Verdict
from rtviewer.errors import InvalidInputError, Violation, violation
from rtviewer.scene.camera import Camera
from rtviewer.scene.ray_sources import ImageSource, SourceKind, spec_of
from rtviewer.session import explain
from rtviewer.session.document import TOP_LEVEL, World
from rtviewer.session.expected import Explanation, explain_expected
from rtviewer.session.hit_records import HitRecord, record_index, record_of
from rtviewer.session.playback import Playback
from rtviewer.session.primary_rays import trace_settings
from rtviewer.session.source_rays import ray_of_pixel
from rtviewer.session.state import Expected, RaySettings
from rtviewer.trace.request import Hits, RayBatch, Walk

Vector = tuple[float, float, float]

MAX_EVENTS = 1_000_000


@dataclass(frozen=True)
class LogRow:
    """One event. Numbers that do not apply are -1, ``t`` then NaN.

    ``structure``: -1 top level, else the bottom-level index. ``box``: the number in that structure's Tree of the box
    that the event is about or whose leaf led to it; ``depth`` that box's depth in its tree. ``stack_size``: entries on
    the stack at the time. ``t``, ``t_exit``: slab interval of a box; of a candidate ``t`` alone. ``t_current``: the
    ray's end at the test. ``edges``: (u, v, w) of a triangle. ``family``: as in ``dxr.verdicts``.
    """

    index: int
    kind: EventKind
    level: int
    structure: int
    depth: int
    box: int
    instance: int
    geometry: int
    primitive: int
    t: float
    t_exit: float
    t_current: float
    edges: Vector
    hit_kind: int
    stack_size: int
    verdict: Verdict
    rule: str
    family: str
    text: str

    @property
    def is_candidate(self) -> bool:
        return self.kind in (EventKind.CANDIDATE, EventKind.REPORT)

    def to_json(self) -> dict[str, Any]:
        """As one item of ``events`` of ``rtviewer ray --json``; ``node`` is the box number."""
        return {
            "kind": self.kind.name.lower(),
            "level": "top" if self.level == 0 else "bottom",
            "depth": self.depth,
            "instance": self.instance,
            "node": self.box,
            "geometry": self.geometry,
            "primitive": self.primitive,
            "t": finite(self.t),
            "t_exit": finite(self.t_exit),
            "t_current": finite(self.t_current),
            "edges": None if math.isnan(self.edges[0]) or not self.is_candidate else [finite(v) for v in self.edges],
            "hit_kind": self.hit_kind,
            "stack_size": self.stack_size,
            "verdict": self.verdict.name.lower(),
            "rule": self.rule,
            "text": self.text,
        }


@dataclass(frozen=True)
class LogResult:
    """What the ray ended with; the fields of Hits of one ray, and the shader record it selects."""

    hit: bool
    t: float
    instance_index: int
    instance_id: int
    geometry_index: int
    primitive_index: int
    hit_kind: int
    attributes: tuple[float, float]
    hit_group_index: int
    formula: str
    """How the record came about, with numbers filled in (HG-1, or HG-2 of a miss), and which hit group it names."""
    record: HitRecord | None = None
    """The record of a hit, when the scene has a table."""

    def to_json(self) -> dict[str, Any]:
        if not self.hit:
            return {"hit": False, "record": self.formula}
        return {
            "hit": True,
            "t": finite(self.t),
            "instance_index": self.instance_index,
            "instance_id": self.instance_id,
            "geometry_index": self.geometry_index,
            "primitive_index": self.primitive_index,
            "hit_kind": self.hit_kind,
            "barycentrics": [finite(a) for a in self.attributes],
            "hit_group_index": self.hit_group_index,
            "record": self.formula,
            "hit_group": self.record.to_json() if self.record is not None else None,
        }


@dataclass(frozen=True, eq=False)
class RayLog:
    """The log of one ray. ``events``: EVENT rows in the order made; ``truncated``: the log hit its limit.

    ``counters``: Counter to count, of the ray itself; ``x_ray_counters``: of its x-ray (``TraceSettings.x_ray``), empty
    where that comes to a hit-group record at fault. ``x_ray``: the events are those of the x-ray; ``result`` is the
    ray's own all the same. ``pixel`` and ``size`` are None for a typed ray.
    """

    world: World
    origin: Vector
    direction: Vector
    rays: RaySettings
    events: NDArray[np.void]
    truncated: bool
    result: LogResult
    counters: dict[Counter, int]
    warnings: tuple[str, ...] = ()
    """What is legal but surely not meant (RAY-5)."""
    camera: Camera | None = None
    size: tuple[int, int] | None = None
    pixel: tuple[int, int] | None = None
    x_ray: bool = False
    x_ray_counters: dict[Counter, int] = field(default_factory=dict)
    profile: Profile = DEFAULT_PROFILE
    source: SourceKind = SourceKind.TYPED
    """Whose ray it is; ``rays`` are the settings that source's rays have."""
    list_index: int = -1
    """Which ray of the list of rays it is, -1 for none."""

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[LogRow]:
        return (self.row(index) for index in range(len(self.events)))

    def structure_of(self, index: int) -> int:
        """Structure index of an event's box: -1 top level, else of its instance's bottom level."""
        event = self.events[index]
        return TOP_LEVEL if int(event["level"]) == 0 else self.world.blas_of_instance(int(event["instance"]))

    def row(self, index: int) -> LogRow:
        """Event ``index`` with its numbers, rule and sentence."""
        event = self.events[index]
        structure = self.structure_of(index)
        tree = self.world.tree(structure)
        box = tree.box_of(int(event["node"]), int(event["lane"])) if len(tree) else -1
        verdict = Verdict(int(event["verdict"]))
        return LogRow(
            index=index,
            kind=EventKind(int(event["kind"])),
            level=int(event["level"]),
            structure=structure,
            depth=int(tree.depth[box]) if box >= 0 else 0,
            box=box,
            instance=int(event["instance"]),
            geometry=int(event["geometry"]),
            primitive=int(event["primitive"]),
            t=float(event["t"]),
            t_exit=float(event["t_exit"]),
            t_current=float(event["t_current"]),
            edges=(float(event["u"]), float(event["v"]), float(event["w"])),
            hit_kind=int(event["hit_kind"]),
            stack_size=int(event["stack_size"]),
            verdict=verdict,
            rule=explain.rule_of(self, index),
            family=VERDICTS[verdict].family,
            text=explain.sentence(self, index, structure, box),
        )

    def indices_of(self, *kinds: EventKind) -> NDArray[np.int64]:
        """Positions of the events of some kinds, in order."""
        return np.flatnonzero(np.isin(self.events["kind"], [int(kind) for kind in kinds]))

    def why_not(self, instance: int, geometry: int = -1, primitive: int = -1) -> str:
        """One sentence: what became of an instance or primitive that the user expected to be hit."""
        return self.explain_expected(instance, geometry, primitive).sentence

    def explain_expected(self, instance: int, geometry: int = -1, primitive: int = -1) -> Explanation:
        """What became of an instance, geometry or primitive (-1: any), with the events that show it.

        Raises RtviewerError when the world has no such thing.
        """
        return explain_expected(self, Expected(instance, geometry, primitive))

    @cached_property
    def playback(self) -> Playback:
        """Stepping through this log."""
        return Playback(self)

    def is_same_walk(self, other: RayLog | None) -> bool:
        """Whether the other log is of the same ray in the same world, so that its events are these."""
        return (
            other is not None
            and self.world is other.world
            and (self.origin, self.direction, self.rays) == (other.origin, other.direction, other.rays)
            and (self.x_ray, self.profile) == (other.x_ray, other.profile)
            and len(self) == len(other)
        )

    def result_text(self) -> str:
        """What the ray ended with, and the record it selects with the formula filled in, on two lines."""
        result = self.result
        if not result.hit:
            return f"Miss\n{result.formula}"
        return (
            f"Hit at t = {result.t:.6g}: instance {result.instance_index} (ID {result.instance_id}), "
            f"geometry {result.geometry_index}, primitive {result.primitive_index}, {hit_kind_text(result.hit_kind)}\n"
            f"{result.formula}"
        )

    def x_ray_count(self, counter: XRayCounter) -> int:
        """One x-ray counter. KeyError where ``x_ray_counters`` is empty."""
        return sum(self.x_ray_counters[column] for column in counter.columns)

    def to_json(self, rows: Iterable[LogRow] | None = None) -> dict[str, Any]:
        """As ``rtviewer ray --json`` prints it, with all events or those given. Infinite and undefined numbers are
        null.

        An x-ray's log has ``x_ray`` in ``ray``, and the x-ray counters among the others.
        """
        ray: dict[str, Any] = {
            "origin": [finite(v) for v in self.origin],
            "direction": [finite(v) for v in self.direction],
            "t_min": finite(self.rays.t_min),
            "t_max": finite(self.rays.t_max),
            "ray_flags": format_flags(self.rays.ray_flags),
            "mask": self.rays.mask,
            "pixel": list(self.pixel) if self.pixel else None,
            "size": list(self.size) if self.size else None,
            "source": str(self.source),
            "warnings": list(self.warnings),
        }
        answer: dict[str, Any] = {
            "ray": ray,
            "events": [row.to_json() for row in (self if rows is None else rows)],
            "truncated": self.truncated,
            "result": self.result.to_json(),
            "counters": {counter.key: count for counter, count in self.counters.items()},
        }
        if self.x_ray:
            ray["x_ray"] = True
            answer["counters"] |= {counter.key: self.x_ray_count(counter) for counter in X_RAY_COUNTERS}
        return answer


def finite(value: float) -> float | None:
    """For JSON, which has no infinity and no NaN."""
    return float(value) if math.isfinite(value) else None


def check_ray_values(origin: Vector, direction: Vector) -> list[Violation]:
    """Rules RAY-3 and, as warnings, RAY-5 for one ray."""
    section, found = "Ray extents", []
    for name, values in (("Origin", origin), ("Direction", direction)):
        if any(math.isnan(value) for value in values):
            found.append(violation("RAY-3", f"{name} must not be NaN", field=name, value=values, section=section))
        elif any(math.isinf(value) for value in values):
            text = f"{name} is infinite: the ray misses everything"
            found.append(violation("RAY-5", text, field=name, value=values, section=section, warning=True))
    if not any(direction):
        text = "a direction of zero hits no triangle"
        found.append(violation("RAY-5", text, field="Direction", value=direction, section=section, warning=True))
    return sorted(found)


def walk_ray(
    world: World,
    origin: Vector,
    direction: Vector,
    rays: RaySettings,
    *,
    profile: Profile = DEFAULT_PROFILE,
    limit: int = MAX_EVENTS,
    x_ray: bool = False,
    source: SourceKind = SourceKind.TYPED,
    list_index: int = -1,
) -> RayLog:
    """The log of a ray given by its numbers. Raises InvalidInputError when ray, flags or interval break a rule."""
    require(check_ray_values(origin, direction), "ray")
    batch = RayBatch.make(origin, direction, rays.t_min, rays.t_max)
    return _log(world, batch, rays, profile, limit, x_ray, source=source, list_index=list_index)


def walk_pixel(
    world: World,
    camera: Camera,
    size: tuple[int, int],
    pixel: tuple[int, int],
    rays: RaySettings,
    source: ImageSource | None = None,
    *,
    camera_ray: bool = False,
    profile: Profile = DEFAULT_PROFILE,
    limit: int = MAX_EVENTS,
    x_ray: bool = False,
) -> RayLog:
    """The log of a pixel's ray in the image of ``size`` (width, height), by ``source`` (None: the camera's).

    See ``source_rays.ray_of_pixel``; its note is the first of ``warnings``.
    """
    ray = ray_of_pixel(world, camera, size, pixel, rays, source, camera_ray=camera_ray, profile=profile)
    log = _log(
        world, ray.batch, ray.settings, profile, limit, x_ray, camera=camera, size=size, pixel=pixel,
        source=spec_of(ray.source).kind,
    )  # fmt: skip
    return replace(log, warnings=(ray.note, *log.warnings)) if ray.note else log


def _log(
    world: World, batch: RayBatch, rays: RaySettings, profile: Profile, limit: int, x_ray: bool, **echo: Any
) -> RayLog:
    require([*check_ray_flags(rays.ray_flags, profile), *check_ray_interval(rays.t_min, rays.t_max)], "ray")
    dispatcher = world.dispatcher(profile)
    settings = trace_settings(rays, world.scene)
    through = replace(settings, x_ray=True)
    walked = dispatcher.walk(batch, through if x_ray else settings, limit=limit)
    # The other one only counts, on the kernel that is there for the log.
    try:
        other = dispatcher.walk(batch, settings if x_ray else through, limit=1, kinds=0)
    except InvalidInputError:
        if x_ray:
            raise
        other = None  # behind its hit the ray would come to a record at fault
    own, whole = (other, walked) if x_ray else (walked, other)
    assert own is not None
    return RayLog(
        world,
        _vector(batch.origin[0]),
        _vector(batch.direction[0]),
        rays,
        walked.events[walked.offsets[0] : walked.offsets[1]],
        bool(walked.truncated[0]),
        _result(world, own.result.hits, rays),
        _counted(own),
        tuple(str(v) for v in check_ray_values(_vector(batch.origin[0]), _vector(batch.direction[0]))),
        x_ray=x_ray,
        x_ray_counters=_counted(whole) if whole is not None else {},
        profile=profile,
        **echo,
    )


def _counted(walked: Walk) -> dict[Counter, int]:
    counts = walked.result.counters
    assert counts is not None
    return {counter: int(counts[0, counter]) for counter in Counter}


def _vector(values: NDArray[np.float32]) -> Vector:
    return float(values[0]), float(values[1]), float(values[2])


def _result(world: World, hits: Hits, rays: RaySettings) -> LogResult:
    instance, geometry = int(hits.instance_index[0]), int(hits.geometry_index[0])
    record = record_of(world, rays, instance, geometry) if hits.hit[0] else None
    return LogResult(
        hit=bool(hits.hit[0]),
        t=float(hits.t[0]),
        instance_index=instance,
        instance_id=int(hits.instance_id[0]),
        geometry_index=geometry,
        primitive_index=int(hits.primitive_index[0]),
        hit_kind=int(hits.hit_kind[0]),
        attributes=(float(hits.attributes[0, 0]), float(hits.attributes[0, 1])),
        hit_group_index=int(hits.hit_group_index[0]),
        formula=_record_formula(world, rays, instance, geometry, record) if hits.hit[0] else _miss_formula(rays),
        record=record,
    )


def _record_formula(world: World, rays: RaySettings, instance: int, geometry: int, record: HitRecord | None) -> str:
    """HG-1 with its numbers, then the hit group where there is a table."""
    ray, multiplier = rays.ray_contribution & 0xF, rays.multiplier & 0xF
    index = record_index(world, rays, instance, geometry)
    contribution = index - ray - multiplier * geometry
    named = f"; {record.text}" if record is not None else ""
    return (
        f"hit group {index} = {ray} (RayContribution) + {multiplier} (Multiplier) * {geometry} (GeometryIndex) + "
        f"{contribution} (InstanceContribution) [HG-1]{named}"
    )


def _miss_formula(rays: RaySettings) -> str:
    """HG-2 with its numbers."""
    return f"miss record {rays.miss_index & 0xFFFF} = {rays.miss_index} & 0xFFFF [HG-2]"


def hit_kind_text(hit_kind: int) -> str:
    """``254`` as ``front face (254)``; a procedural's own kind as its number."""
    if hit_kind == HitKind.TRIANGLE_FRONT_FACE:
        return "front face (254)"
    if hit_kind == HitKind.TRIANGLE_BACK_FACE:
        return "back face (255)"
    return str(hit_kind)
