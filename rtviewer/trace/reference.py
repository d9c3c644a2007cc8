"""The oracle: every ray against every primitive of every instance, in plain numpy, straight from the inputs.

No tree, no compiled code, nothing shared with the kernels but the rules. Follows sections 3.7, 6 and DET-5 of the rules
word for word; the parts are ``reference_triangles`` (method of 6.3), ``reference_programs`` (boxes and built-in
programs), ``reference_rules`` (flags, edges, interval, order), ``reference_hit_groups`` (records) and
``reference_search`` (TRAV-1).

A procedural candidate is one whose box the ray meets within [TMin, RayDesc.TMax]. Judging by the whole interval instead
of the current one makes the set independent of any order, and changes no hit of a program that reports only t at which
the ray is inside the box. For one that reports t elsewhere the rules leave the result to the order of enumeration.

A ray that is not finite in the object space of an instance, because its transform overflowed, hits nothing there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rtviewer.dxr.descs import BlasInputs, InstanceInputs, TrianglesGeometry
from rtviewer.dxr.flags import PipelineFlag, RayFlag
from rtviewer.dxr.rules import Opacity
from rtviewer.scene.material import GeometryMaterials
from rtviewer.scene.primitives import (
    degenerate_triangles,
    inactive_boxes,
    inactive_triangles,
    invert_transforms,
    largest_coordinate,
    normalised_boxes,
    transform_directions,
    transform_points,
    triangle_corners,
)
from rtviewer.trace.reference_hit_groups import NO_FAULT, Calls, Lookup, hit_group_fault, look_up
from rtviewer.trace.reference_materials import of_blas
from rtviewer.trace.reference_programs import (
    MOST_REPORTS,
    Places,
    box_interval,
    is_offered,
    run_any_hit,
    run_intersection,
)
from rtviewer.trace.reference_rules import ReferenceRules, facings, opacities
from rtviewer.trace.reference_search import CandidateRows, Candidates, Committed, possible, rows_of, search
from rtviewer.trace.reference_triangles import PAIRS_AT_A_TIME, meet_triangles
from rtviewer.trace.request import Hits, RayBatch, TraceSettings

Scalar = TypeVar("Scalar", bound=np.generic)

__all__ = ["CandidateRows", "ReferenceResult", "ReferenceRules", "trace_reference"]


@dataclass(frozen=True)
class ReferenceResult:
    """What the rules say about a batch of rays.

    ``hits``: the outcome of offering candidates in the order of DET-5; ``any_hit_log``: the any-hit calls made then.
    ``accepted``: per ray, every hit that some order of enumeration could commit; ``any_hit_candidates``: every hit on
    which some order could run any-hit. Both are judged against the ray's whole interval.
    """

    hits: Hits
    any_hit_log: CandidateRows
    accepted: CandidateRows
    any_hit_candidates: CandidateRows


@dataclass(frozen=True)
class _Primitives:
    """The primitives of one bottom level that can be hit: active and, if triangles, not degenerate [INA-6, DEG-3].

    ``shape`` (m, 3, 3) corners or (m, 6) boxes, float32; ``geometry``, ``primitive`` (m,) int32; ``flags`` (m,) uint32.
    """

    is_triangles: bool
    shape: NDArray[np.float32]
    geometry: NDArray[np.int32]
    primitive: NDArray[np.int32]
    flags: NDArray[np.uint32]
    largest_coordinate: float


@dataclass(frozen=True)
class _Rays:
    """The rays that can hit anything, with their settings spread out; ``number`` is the position in the batch."""

    number: NDArray[np.int64]
    batch: RayBatch
    flags: NDArray[np.uint32]
    mask: NDArray[np.uint32]
    report_t: NDArray[np.float32]
    calls: Calls

    def __len__(self) -> int:
        return len(self.number)


def trace_reference(
    blases: Sequence[BlasInputs],
    instances: InstanceInputs,
    blas_of: Sequence[int],
    rays: RayBatch,
    settings: TraceSettings,
    *,
    rules: ReferenceRules | None = None,
    materials: Sequence[GeometryMaterials] = (),
) -> ReferenceResult:
    """The hits of n rays and every alternative that the rules allow. ``materials``: of each bottom level.

    Programs of a user are not known here.

    ``blas_of``: per instance the position in ``blases``, -1 for none [INST-2]; ``instances.blas_address`` is not read.
    Ray flags and build inputs are taken as legal. Invalid rays are marked and miss [RAY-4]. Needs memory for one row
    per candidate, not per pair.

    Raises InvalidInputError for the first ray with a candidate in its interval whose hit-group record is outside the
    table [HG-4] or of the other kind [TRAV-5]. It looks at every such candidate; a tracer that stops early may not.
    """
    rules = rules or ReferenceRules()
    n = len(rays)
    ray_flags = _spread(settings.ray_flags, np.uint32, n) | np.uint32(
        settings.pipeline_flags & (PipelineFlag.SKIP_TRIANGLES | PipelineFlag.SKIP_PROCEDURAL_PRIMITIVES)
    )
    invalid = _invalid_rays(rays)
    finite = np.isfinite(rays.origin).all(axis=1) & np.isfinite(rays.direction).all(axis=1)
    number = np.flatnonzero(~invalid & finite)  # RAY-5
    usable = _Rays(
        number,
        RayBatch(rays.origin[number], rays.direction[number], rays.t_min[number], rays.t_max[number]),
        ray_flags[number],
        _spread(settings.mask, np.uint32, n)[number],
        _spread(settings.report_t, np.float32, n)[number],
        Calls(
            settings.hit_groups,
            _spread(settings.ray_contribution, np.int64, n)[number],
            _spread(settings.multiplier, np.int64, n)[number],
            _spread(settings.any_hit, np.int64, n)[number],
            _spread(settings.intersection, np.int64, n)[number],
        ),
    )
    candidates = _collect(blases, instances, blas_of, usable, rules, materials)
    _raise_faults(candidates, rays, rules)
    arguments = (candidates, rays.t_min, rays.t_max, ray_flags, rules)
    committed, log = search(*arguments)
    accepted, called = possible(*arguments)
    return ReferenceResult(
        _hits(candidates, committed, instances, rays, invalid),
        rows_of(candidates, n, *log),
        rows_of(candidates, n, *accepted),
        rows_of(candidates, n, *called),
    )


def _raise_faults(candidates: Candidates, rays: RayBatch, rules: ReferenceRules) -> None:
    """HG-4 and TRAV-5: a record is used where a triangle's hit lies in the interval or a box is offered."""
    ray = candidates.ray
    inside = rules.in_interval(candidates.is_triangle, candidates.t[:, 0], rays.t_min[ray], rays.t_max[ray])
    bad = np.flatnonzero((candidates.fault != NO_FAULT) & (inside | ~candidates.is_triangle))
    if len(bad):
        first = bad[0]
        raise hit_group_fault(int(ray[first]), int(candidates.fault[first]), int(candidates.record[first]))


def _spread(value: object, dtype: type[Scalar], n: int) -> NDArray[Scalar]:
    """A value for all rays or one per ray, as one per ray."""
    return np.broadcast_to(np.asarray(value).astype(dtype), (n,))


def _invalid_rays(rays: RayBatch) -> NDArray[np.bool_]:
    """RAY-2 and RAY-3."""
    nan = np.isnan(rays.origin).any(axis=1) | np.isnan(rays.direction).any(axis=1)
    return nan | ~((rays.t_min >= 0) & (rays.t_min <= rays.t_max))


def _primitives(blas: BlasInputs) -> _Primitives:
    shapes, geometries, primitives, flags = [], [], [], []
    is_triangles = bool(blas.geometries) and isinstance(blas.geometries[0], TrianglesGeometry)
    for index, geometry in enumerate(blas.geometries):
        if isinstance(geometry, TrianglesGeometry):
            shape = triangle_corners(geometry)
            keep = np.flatnonzero(~inactive_triangles(shape) & ~degenerate_triangles(shape))
        else:
            shape = normalised_boxes(geometry.aabbs)
            keep = np.flatnonzero(~inactive_boxes(geometry.aabbs))
        shapes.append(shape[keep])
        primitives.append(keep.astype(np.int32))
        geometries.append(np.full(len(keep), index, np.int32))
        flags.append(np.full(len(keep), int(geometry.flags), np.uint32))
    empty = np.empty((0, 3, 3) if is_triangles else (0, 6), np.float32)
    return _Primitives(
        is_triangles,
        np.concatenate([empty, *shapes]),
        np.concatenate([np.empty(0, np.int32), *geometries]),
        np.concatenate([np.empty(0, np.int32), *primitives]),
        np.concatenate([np.empty(0, np.uint32), *flags]),
        largest_coordinate(blas),
    )


def _collect(
    blases: Sequence[BlasInputs],
    instances: InstanceInputs,
    blas_of: Sequence[int],
    rays: _Rays,
    rules: ReferenceRules,
    materials: Sequence[GeometryMaterials],
) -> Candidates:
    """All candidates of all rays, sorted by ray and in the order in which they are offered."""
    prepared = {b: _primitives(blases[b]) for b in sorted({int(b) for b in blas_of}) if b >= 0}
    world_to_object, singular = invert_transforms(instances.transform)
    parts = []
    for index, blas in enumerate(blas_of):
        if int(blas) < 0 or singular[index]:  # INST-2, INST-5
            continue
        primitives = prepared[int(blas)]
        skip = RayFlag.SKIP_TRIANGLES if primitives.is_triangles else RayFlag.SKIP_PROCEDURAL_PRIMITIVES
        enters = (rays.mask & instances.mask[index] & 0xFF != 0) & (rays.flags & skip == 0)  # MASK-1, CULL-1
        some = np.flatnonzero(enters)
        if len(some) == 0 or len(primitives.shape) == 0:
            continue
        origin = transform_points(world_to_object[index], rays.batch.origin[some])
        direction = transform_directions(world_to_object[index], rays.batch.direction[some])
        finite = np.isfinite(origin).all(axis=1) & np.isfinite(direction).all(axis=1)
        collect = _triangle_candidates if primitives.is_triangles else _box_candidates
        entered = _Instance(
            index, int(instances.flags[index]), int(instances.contribution[index]), of_blas(materials, int(blas))
        )
        parts.append(collect(primitives, entered, rays, some[finite], origin[finite], direction[finite], rules))
    return _sorted(parts, rules)


@dataclass(frozen=True)
class _Instance:
    index: int
    flags: int
    contribution: int
    materials: GeometryMaterials


def _triangle_candidates(
    primitives: _Primitives,
    instance: _Instance,
    rays: _Rays,
    some: NDArray[np.int64],
    origin: NDArray[np.float32],
    direction: NDArray[np.float32],
    rules: ReferenceRules,
) -> Candidates:
    hits = meet_triangles(origin, direction, primitives.shape, primitives.largest_coordinate, rules)
    ray = some[hits.ray]
    opacity = opacities(primitives.flags[hits.triangle], instance.flags, rays.flags[ray])
    kind, culled = facings(hits.clockwise, instance.flags, rays.flags[ray])
    kept = np.flatnonzero((opacity <= Opacity.OPAQUE) & ~culled)
    ray, triangle = ray[kept], hits.triangle[kept]
    found = look_up(rays.calls, ray, primitives.geometry[triangle], instance.contribution, is_triangles=True)
    m = len(kept)
    t, barycentrics = np.repeat(hits.t[kept, None], MOST_REPORTS, axis=1), hits.barycentrics[kept]
    places = Places(True, barycentrics, np.empty((0, 3), np.float32), np.empty((0, 3), np.float32))
    geometry, primitive = primitives.geometry[triangle], primitives.primitive[triangle]
    return Candidates(
        rays.number[ray],
        np.full(m, instance.index, np.int32),
        geometry,
        primitive,
        np.ones(m, np.bool_),
        _is_opaque(opacity[kept], found),
        run_any_hit(found.any_hit, geometry, primitive, t, places, instance.materials),
        found.record,
        found.fault,
        np.ones(m, np.int64),
        t,
        np.repeat(kind[kept, None], MOST_REPORTS, axis=1),
        np.zeros(m, np.bool_),
        barycentrics,
    )


def _box_candidates(
    primitives: _Primitives,
    instance: _Instance,
    rays: _Rays,
    some: NDArray[np.int64],
    origin: NDArray[np.float32],
    direction: NDArray[np.float32],
    rules: ReferenceRules,
) -> Candidates:
    at, box = _boxes_offered(primitives.shape, rays, some, origin, direction)
    opacity = opacities(primitives.flags[box], instance.flags, rays.flags[some[at]])
    kept = opacity <= Opacity.OPAQUE  # before any program runs [CULL-2]
    at, box, opacity = at[kept], box[kept], opacity[kept]
    ray = some[at]
    found = look_up(rays.calls, ray, primitives.geometry[box], instance.contribution, is_triangles=False)
    reports = run_intersection(found.intersection, rays.report_t[ray], origin[at], direction[at], primitives.shape[box])
    m = len(at)
    places = Places(False, np.empty((0, 2), np.float32), origin[at], direction[at])
    geometry, primitive = primitives.geometry[box], primitives.primitive[box]
    return Candidates(
        rays.number[ray],
        np.full(m, instance.index, np.int32),
        geometry,
        primitive,
        np.zeros(m, np.bool_),
        _is_opaque(opacity, found),
        run_any_hit(found.any_hit, geometry, primitive, reports.t, places, instance.materials),
        found.record,
        found.fault,
        reports.report_count,
        reports.t,
        reports.kind,
        reports.always,
        np.zeros((m, 2), np.float32),
    )


def _is_opaque(opacity: NDArray[np.uint8], found: Lookup) -> NDArray[np.bool_]:
    """OPQ-5: a hit group without any-hit makes its hits opaque, after culling has had its say."""
    opaque: NDArray[np.bool_] = (opacity == Opacity.OPAQUE) | found.has_no_any_hit
    return opaque


def _boxes_offered(
    boxes: NDArray[np.float32],
    rays: _Rays,
    some: NDArray[np.int64],
    origin: NDArray[np.float32],
    direction: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions (in ``some``, in ``boxes``) of the pairs that PROC-1 offers."""
    pairs = []
    step = max(1, PAIRS_AT_A_TIME // len(boxes))
    for first in range(0, len(some), step):
        rows = np.arange(first, min(first + step, len(some)))
        at, box = np.repeat(rows, len(boxes)), np.tile(np.arange(len(boxes)), len(rows))
        interval = box_interval(origin[at], direction[at], boxes[box])
        offered = is_offered(interval, rays.batch.t_min[some[at]], rays.batch.t_max[some[at]])
        pairs.append((at[offered], box[offered]))
    none = np.empty(0, np.int64)
    return np.concatenate([none, *(p[0] for p in pairs)]), np.concatenate([none, *(p[1] for p in pairs)])


def _sorted(parts: list[Candidates], rules: ReferenceRules) -> Candidates:
    names = list(Candidates.__dataclass_fields__)
    columns = [np.concatenate([getattr(_NO_CANDIDATES, name), *(getattr(p, name) for p in parts)]) for name in names]
    whole = Candidates(*columns)
    most, middle, least = rules.offer_keys(whole.instance, whole.geometry, whole.primitive)
    order = np.lexsort((least, middle, most, whole.ray))
    return Candidates(*(column[order] for column in columns))


_NO_CANDIDATES = Candidates(
    np.empty(0, np.int64),
    np.empty(0, np.int32),
    np.empty(0, np.int32),
    np.empty(0, np.int32),
    np.empty(0, np.bool_),
    np.empty(0, np.bool_),
    np.empty((0, MOST_REPORTS), np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.uint8),
    np.empty(0, np.int64),
    np.empty((0, MOST_REPORTS), np.float32),
    np.empty((0, MOST_REPORTS), np.int32),
    np.empty(0, np.bool_),
    np.empty((0, 2), np.float32),
)


def _hits(
    candidates: Candidates,
    committed: Committed,
    instances: InstanceInputs,
    rays: RayBatch,
    invalid: NDArray[np.bool_],
) -> Hits:
    n = len(rays)
    ray = np.flatnonzero(committed.row >= 0)
    row, slot = committed.row[ray], committed.slot[ray]
    instance, geometry = candidates.instance[row], candidates.geometry[row]
    record = candidates.record[row]
    attributes = np.zeros((n, 2), np.float32)
    attributes[ray] = candidates.attributes(row, slot)

    def spread(values: NDArray[Any], dtype: type[Scalar]) -> NDArray[Scalar]:
        column: NDArray[Scalar] = np.full(n, -1, dtype)
        column[ray] = values
        return column

    return Hits(
        hit=committed.row >= 0,
        t=committed.t,
        instance_index=spread(instance, np.int32),
        geometry_index=spread(geometry, np.int32),
        primitive_index=spread(candidates.primitive[row], np.int32),
        hit_kind=spread(candidates.kind[row, slot], np.int32),
        instance_id=spread(instances.instance_id[instance], np.int64),
        attributes=attributes,
        hit_group_index=spread(record, np.int64),
        invalid=invalid,
    )
