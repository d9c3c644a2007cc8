"""What becomes of a candidate, in the order of CULL-5: triangles (``triangles``) and procedurals (``procedurals``) are
offered here.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import inline_jit, jit
from rtviewer.kernels.constants import (
    COUNT_ANY_HIT_CALLS,
    COUNT_COMMITS,
    COUNT_REJECTED_CULLED,
    COUNT_REJECTED_INTERVAL,
    EVENT_CANDIDATE,
    GEOMETRY_FIRST_PRIMITIVE,
    GEOMETRY_FLAGS,
    GEOMETRY_NO_DUPLICATE,
    GEOMETRY_SIZE,
    ID_OPAQUE,
    OPACITY_CULLED_NON_OPAQUE,
    OPACITY_NON_OPAQUE,
    OPACITY_OPAQUE,
    PROGRAM_ABSENT,
    PROGRAM_QUERY,
    RAY_ACCEPT_FIRST_HIT,
    VERDICT_ANY_HIT_ACCEPTED,
    VERDICT_ANY_HIT_ENDED_SEARCH,
    VERDICT_ANY_HIT_FIRST_ENDED,
    VERDICT_ANY_HIT_IGNORED,
    VERDICT_AT_OR_BEFORE_T_MIN,
    VERDICT_AT_OR_BEYOND_CURRENT_END,
    VERDICT_COMMITTED,
    VERDICT_CULLED_NON_OPAQUE,
    VERDICT_CULLED_OPAQUE,
    VERDICT_FIRST_HIT_ENDED_SEARCH,
    VERDICT_HIT_GROUP_FAULT,
    VERDICT_NONE,
    VERDICT_RETURNED_TO_CALLER,
    VERDICT_SURFACE_PASSED,
    VERDICT_TIE_LOST,
)
from rtviewer.kernels.events import (
    CANDIDATE_REASON_OF,
    add_event,
    count,
    count_reason,
)
from rtviewer.kernels.hit_groups import any_hit_program, next_decision, record_of
from rtviewer.kernels.memory import (
    load_f32,
    load_i64,
    load_u32,
    store_f32,
    store_i64,
)
from rtviewer.kernels.programs import ACCEPT_HIT_AND_END_SEARCH, IGNORE_HIT, any_hit
from rtviewer.kernels.state import (
    ATTRIBUTE_0,
    ATTRIBUTE_1,
    ENDED,
    FAULT,
    HIT_GEOMETRY,
    HIT_INSTANCE,
    HIT_IS_TRIANGLE,
    HIT_KIND,
    HIT_NUMBER,
    HIT_PRIMITIVE,
    HIT_WAS_OPAQUE,
    INSTANCE,
    OPACITY_OF_NON_OPAQUE,
    OPACITY_OF_OPAQUE,
    RAY_FLAGS,
    STACK_PLACES,
    T_CURRENT,
    T_MIN,
    TIED,
    WORLD,
    WORLD_REPEAT,
    X_RAY,
)


@inline_jit
def find_geometry(geometries, geometry_count, number):
    """Index of the geometry that holds a primitive number: the last whose first primitive is not above it."""
    low, high = 0, geometry_count - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if first_of_geometry(geometries, middle) <= number:
            low = middle
        else:
            high = middle - 1
    return low


@inline_jit
def first_of_geometry(geometries, geometry):
    return np.int64(load_u32(geometries + geometry * GEOMETRY_SIZE + GEOMETRY_FIRST_PRIMITIVE))


@jit
def wins_tie(is_triangle, number, walk):
    """DET-5 for equal t: largest key among triangles, smallest among procedurals, procedural over triangle.

    Reports of one intersection call stand in their own order: the later replaces the earlier.
    """
    if (load_i64(walk + HIT_IS_TRIANGLE) != 0) != is_triangle:
        return not is_triangle
    instance, hit_instance = load_i64(walk + INSTANCE), load_i64(walk + HIT_INSTANCE)
    hit_number = load_i64(walk + HIT_NUMBER)
    if is_triangle:
        return instance > hit_instance or (instance == hit_instance and number > hit_number)
    return instance < hit_instance or (instance == hit_instance and number <= hit_number)


@inline_jit
def outside_interval(is_triangle, t, walk):
    """RAY-6 but for a triangle exactly at the current end of a committed hit, which a tie may still decide."""
    t_min, end = load_f32(walk + T_MIN), load_f32(walk + T_CURRENT)
    if is_triangle:
        if not (t > t_min):
            return VERDICT_AT_OR_BEFORE_T_MIN
        if not (t < end or (t == end and load_i64(walk + HIT_INSTANCE) >= 0)):
            return VERDICT_AT_OR_BEYOND_CURRENT_END
        return VERDICT_NONE
    if not (t >= t_min):
        return VERDICT_AT_OR_BEFORE_T_MIN
    return VERDICT_NONE if t <= end else VERDICT_AT_OR_BEYOND_CURRENT_END


@inline_jit
def tie_verdict(is_triangle, t, opacity, number, walk):
    """What a t equal to the committed one becomes: DET-5 between opaque hits, RAY-6 literally with any-hit involved."""
    if t != load_f32(walk + T_CURRENT) or load_i64(walk + HIT_INSTANCE) < 0:
        return VERDICT_NONE
    if opacity == OPACITY_OPAQUE and load_i64(walk + HIT_WAS_OPAQUE) != 0:
        return VERDICT_NONE if wins_tie(is_triangle, number, walk) else VERDICT_TIE_LOST
    store_i64(walk + TIED, np.int64(1))
    return VERDICT_AT_OR_BEYOND_CURRENT_END if is_triangle else VERDICT_NONE


@jit
def offer(is_triangle, t, kind, attribute_0, attribute_1, opacity, number, geometries, geometry_count, walk, counters):
    """TRAV-1 from the interval test on: any-hit where not opaque, commit, end of search. Returns the verdict."""
    verdict = outside_interval(is_triangle, t, walk)
    if verdict != VERDICT_NONE:
        count(counters, COUNT_REJECTED_INTERVAL, 1)
        return verdict
    geometry = find_geometry(geometries, geometry_count, number)
    record = record_of(geometry, is_triangle, walk)
    if load_i64(walk + FAULT) != 0:
        return VERDICT_HIT_GROUP_FAULT
    program = any_hit_program(record, walk)
    if program == PROGRAM_ABSENT:
        opacity = np.int64(OPACITY_OPAQUE)  # OPQ-5
    verdict = tie_verdict(is_triangle, t, opacity, number, walk)
    if verdict != VERDICT_NONE:
        count(counters, COUNT_REJECTED_INTERVAL, 1)
        return verdict
    primitive = number - first_of_geometry(geometries, geometry)
    verdict = VERDICT_COMMITTED
    if program == PROGRAM_QUERY and is_triangle and opacity == OPACITY_NON_OPAQUE:
        decided, t_decided = next_decision(walk)
        if not decided:
            return VERDICT_RETURNED_TO_CALLER
        if np.isnan(t_decided):
            return VERDICT_ANY_HIT_IGNORED
        verdict = VERDICT_ANY_HIT_ACCEPTED
    elif program != PROGRAM_QUERY and opacity == OPACITY_NON_OPAQUE:
        count(counters, COUNT_ANY_HIT_CALLS, 1)
        action = any_hit(program, geometry, primitive, is_triangle, t, kind, attribute_0, attribute_1, walk)
        if load_i64(walk + FAULT) != 0:
            return VERDICT_HIT_GROUP_FAULT
        if action == IGNORE_HIT:
            return VERDICT_ANY_HIT_IGNORED
        verdict = VERDICT_ANY_HIT_ACCEPTED
        if action == ACCEPT_HIT_AND_END_SEARCH:
            verdict = VERDICT_ANY_HIT_ENDED_SEARCH
            store_i64(walk + ENDED, np.int64(1))
    return commit(
        is_triangle, t, kind, attribute_0, attribute_1, opacity, number, geometry, primitive, verdict, walk, counters
    )


@inline_jit
def commit(
    is_triangle, t, kind, attribute_0, attribute_1, opacity, number, geometry, primitive, verdict, walk, counters
):
    """The candidate becomes the hit (TRAV-1); returns the verdict, which RF-2 may change."""
    count(counters, COUNT_COMMITS, 1)
    if load_i64(walk + RAY_FLAGS) & X_RAY:
        store_i64(walk + ENDED, np.int64(0))  # not even an any-hit program ends an x-ray
        return VERDICT_SURFACE_PASSED
    store_i64(walk + HIT_INSTANCE, load_i64(walk + INSTANCE))
    store_i64(walk + HIT_GEOMETRY, np.int64(geometry))
    store_i64(walk + HIT_PRIMITIVE, np.int64(primitive))
    store_i64(walk + HIT_KIND, np.int64(kind))
    store_i64(walk + HIT_NUMBER, np.int64(number))
    store_i64(walk + HIT_IS_TRIANGLE, np.int64(1 if is_triangle else 0))
    store_i64(walk + HIT_WAS_OPAQUE, np.int64(1 if opacity == OPACITY_OPAQUE else 0))
    store_f32(walk + T_CURRENT, t)
    store_f32(walk + ATTRIBUTE_0, attribute_0)
    store_f32(walk + ATTRIBUTE_1, attribute_1)
    if load_i64(walk + RAY_FLAGS) & RAY_ACCEPT_FIRST_HIT and load_i64(walk + ENDED) == 0:
        store_i64(walk + ENDED, np.int64(1))
        verdict = VERDICT_FIRST_HIT_ENDED_SEARCH if verdict == VERDICT_COMMITTED else VERDICT_ANY_HIT_FIRST_ENDED
    return verdict


@jit
def log_candidate(log, event, verdict, kind, geometries, geometry_count, number, size, t, t_exit, end, u, v, w, walk):
    if log is not None and log != 0:
        geometry = find_geometry(geometries, geometry_count, number)
        primitive = number - first_of_geometry(geometries, geometry)
        place = load_i64(load_i64(walk + STACK_PLACES) + 8 * size)
        node = place >> 3 if place >= 0 else -1
        lane = place & 7 if place >= 0 else -1
        return add_event(
            log, event, 1, verdict, kind, load_i64(walk + INSTANCE), node, lane, geometry, primitive, size,
            t, t_exit, end, u, v, w,
        )  # fmt: skip
    return np.int64(0)


@jit
def reject_culled(opacity, geometries, geometry_count, number, size, walk, counters, log):
    """A candidate that opacity culling takes away before its geometry is looked at (CULL-2)."""
    count(counters, COUNT_REJECTED_CULLED, 1)
    verdict = VERDICT_CULLED_NON_OPAQUE if opacity == OPACITY_CULLED_NON_OPAQUE else VERDICT_CULLED_OPAQUE
    count_reason(counters, CANDIDATE_REASON_OF, verdict)
    log_candidate(
        log, EVENT_CANDIDATE, verdict, 0, geometries, geometry_count, number, size,
        np.nan, np.nan, load_f32(walk + T_CURRENT), np.nan, np.nan, np.nan, walk,
    )  # fmt: skip


@inline_jit
def opacity_of(identity, walk):
    """What the walk makes of a pack lane's geometry (OPQ-1 to OPQ-4)."""
    if identity & ID_OPAQUE:
        return load_i64(walk + OPACITY_OF_OPAQUE)
    return load_i64(walk + OPACITY_OF_NON_OPAQUE)


@jit
def may_repeat(number, geometries, geometry_count, walk):
    """Whether the debug switch is on and the geometry may see a call twice (AH-7, PROC-8, GF-3)."""
    if load_i64(load_i64(walk + WORLD) + WORLD_REPEAT) == 0:
        return False
    geometry = find_geometry(geometries, geometry_count, number)
    flags = load_u32(geometries + geometry * GEOMETRY_SIZE + GEOMETRY_FLAGS)
    return (flags & np.uint32(GEOMETRY_NO_DUPLICATE)) == 0
