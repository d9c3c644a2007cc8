"""Candidates: triangles and procedural boxes of a leaf, tested in the order of CULL-5, and what becomes of each."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import inline_jit, jit
from rtviewer.kernels.constants import (
    BACK_FACE,
    BOX_PACK_IDS,
    BOX_PACK_SIZE,
    COUNT_ANY_HIT_CALLS,
    COUNT_COMMITS,
    COUNT_PROCEDURAL_REPORTS,
    COUNT_PROCEDURAL_TESTS,
    COUNT_REJECTED_CULLED,
    COUNT_REJECTED_FACING,
    COUNT_REJECTED_INTERVAL,
    COUNT_REJECTED_MISSED,
    COUNT_REJECTED_NOTHING_REPORTED,
    COUNT_TRIANGLE_HITS,
    COUNT_TRIANGLE_TESTS,
    EVENT_CANDIDATE,
    EVENT_REPORT,
    GEOMETRY_FIRST_PRIMITIVE,
    GEOMETRY_SIZE,
    ID_OPAQUE,
    INDEXED_PACK_SIZE,
    OPACITY_CULLED_NON_OPAQUE,
    OPACITY_CULLED_OPAQUE,
    OPACITY_NON_OPAQUE,
    OPACITY_OPAQUE,
    PACK_IDS,
    PRIMITIVE_BITS,
    PROGRAM_ABSENT,
    PROGRAM_BOX,
    PROGRAM_QUERY,
    PROGRAM_REPORT_T,
    PROGRAM_SPHERE,
    PROGRAM_SPHERE_FAR_FIRST,
    RAY_ACCEPT_FIRST_HIT,
    TRIANGLE_PACK_SIZE,
    UNUSED_LANE,
    VERDICT_ANY_HIT_ACCEPTED,
    VERDICT_ANY_HIT_ENDED_SEARCH,
    VERDICT_ANY_HIT_FIRST_ENDED,
    VERDICT_ANY_HIT_IGNORED,
    VERDICT_AT_OR_BEFORE_T_MIN,
    VERDICT_AT_OR_BEYOND_CURRENT_END,
    VERDICT_BACK_FACE_CULLED,
    VERDICT_COMMITTED,
    VERDICT_CULLED_NON_OPAQUE,
    VERDICT_CULLED_OPAQUE,
    VERDICT_FIRST_HIT_ENDED_SEARCH,
    VERDICT_FRONT_FACE_CULLED,
    VERDICT_HIT_GROUP_FAULT,
    VERDICT_MISSED,
    VERDICT_NONE,
    VERDICT_NOTHING_REPORTED,
    VERDICT_RETURNED_TO_CALLER,
    VERDICT_SURFACE_PASSED,
    VERDICT_TIE_LOST,
)
from rtviewer.kernels.culling import hit_kind, is_facing_culled
from rtviewer.kernels.events import CANDIDATE_REASON_OF, add_event, count, count_reason, set_verdict
from rtviewer.kernels.hit_groups import any_hit_program, intersection_program, next_decision, record_of
from rtviewer.kernels.memory import (
    load_f32,
    load_f64,
    load_i32,
    load_i64,
    load_u32,
    store_f32,
    store_i32,
    store_i64,
)
from rtviewer.kernels.programs import (
    ACCEPT_HIT_AND_END_SEARCH,
    IGNORE_HIT,
    any_hit,
    sphere_roots,
)
from rtviewer.kernels.ray_box import WIDEN, box_interval
from rtviewer.kernels.ray_triangle import covers, edge_functions
from rtviewer.kernels.state import (
    ATTRIBUTE_0,
    ATTRIBUTE_1,
    BLAS,
    BLAS_GEOMETRIES,
    BLAS_GEOMETRY_COUNT,
    BLAS_INDICES,
    BLAS_VERTICES,
    EDGES,
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
    INSTANCE_FLAGS,
    KZ,
    OBJECT_DIRECTION,
    OBJECT_ORIGIN,
    OPACITY_OF_NON_OPAQUE,
    OPACITY_OF_OPAQUE,
    PACK,
    PACK_FOUND,
    RAY_FLAGS,
    REPORT_T,
    SHEAR,
    SHEAR_SCALE,
    SLAB_BOTTOM,
    STACK_PLACES,
    T_CURRENT,
    T_MAX,
    T_MIN,
    WORLD,
    WORLD_RECORD_COUNT,
    X_RAY,
)
from rtviewer.kernels.vector import box_pack, lowest_bit


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
        action = any_hit(program, geometry, primitive)
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
    if log is not None:
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
def fill_pack(ids, indices, vertices, pack):
    """Gather the corners of four triangle ids into a triangle pack; returns its address."""
    for lane in range(4):
        identity = load_i32(ids + 4 * lane)
        store_i32(pack + 144 + 4 * lane, identity)
        number = np.int64(identity) & PRIMITIVE_BITS if identity != UNUSED_LANE else np.int64(-1)
        for corner in range(3):
            at = np.int64(0)
            if number >= 0:
                at = vertices + 12 * np.int64(load_u32(indices + 12 * number + 4 * corner))
            for axis in range(3):
                value = load_f32(at + 4 * axis) if number >= 0 else np.float32(0.0)
                store_f32(pack + 48 * corner + 16 * axis + 4 * lane, value)
    return pack


@inline_jit
def axis_offset(kz, step):
    """Byte offset of an axis in a corner of a pack, ``step`` after ``kz``."""
    axis = kz + step
    return np.int64(16 * (axis if axis < 3 else axis - 3))


@jit
def test_triangle_leaf(packs, first, last, geometries, geometry_count, walk, size, counters, log):
    """All triangles of a leaf, in storage order, until the search ends."""
    blas, kz = load_i64(walk + BLAS), load_i64(walk + KZ)
    indices, vertices = load_i64(blas + BLAS_INDICES), load_i64(blas + BLAS_VERTICES)
    for pack in range(first, last):
        if indices == 0:
            address = packs + pack * TRIANGLE_PACK_SIZE
        else:
            address = fill_pack(packs + pack * INDEXED_PACK_SIZE, indices, vertices, walk + PACK)
        for lane in range(4):
            if load_i32(address + PACK_IDS + 4 * lane) == UNUSED_LANE:
                continue
            test_triangle(address + 4 * lane, kz, geometries, geometry_count, walk, size, counters, log)
            if load_i64(walk + ENDED) != 0:
                return


@inline_jit
def test_met_triangles(lanes, blas, walk):
    """Lanes of a pack that the vector test lets through, with what it computed, until the search ends."""
    geometries, geometry_count = load_i64(blas + BLAS_GEOMETRIES), load_i64(blas + BLAS_GEOMETRY_COUNT)
    at, kz = load_i64(walk + PACK_FOUND), load_i64(walk + KZ)
    is_scaled = load_f32(walk + SHEAR + SHEAR_SCALE) != np.float32(1.0)
    while lanes != 0 and load_i64(walk + ENDED) == 0:
        lane = lowest_bit(lanes)
        lanes &= lanes - np.uint32(1)
        edges = walk + EDGES + 8 * lane
        u, v, w = load_f64(edges), load_f64(edges + 32), load_f64(edges + 64)
        # A scaled ray was not tested, and on an edge it has to be decided whose it is.
        if is_scaled or u == 0.0 or v == 0.0 or w == 0.0:
            test_triangle(at + 4 * lane, kz, geometries, geometry_count, walk, np.int64(0), None, None)
            continue
        identity = np.int64(load_i32(at + 4 * lane + PACK_IDS))
        opacity = opacity_of(identity, walk)
        if opacity < OPACITY_CULLED_OPAQUE:
            number, t, area = identity & PRIMITIVE_BITS, load_f32(walk + EDGES + 128 + 4 * lane), load_f64(edges + 96)
            meet_triangle(number, opacity, t, v, w, area, kz, geometries, geometry_count, walk, None)


@jit
def used_lanes(ids):
    """Bit k set where lane k of a pack holds a triangle with an area."""
    lanes = np.uint32(0)
    for lane in range(4):
        if load_i32(ids + 4 * lane) >= 0:
            lanes |= np.uint32(1 << lane)
    return lanes


@jit
def test_triangle(at, kz, geometries, geometry_count, walk, size, counters, log):
    """One triangle; ``at`` is the address of its lane's first coordinate."""
    identity = np.int64(load_i32(at + PACK_IDS))
    number = identity & PRIMITIVE_BITS
    opacity = opacity_of(identity, walk)
    end = load_f32(walk + T_CURRENT)
    if opacity >= OPACITY_CULLED_OPAQUE:
        reject_culled(opacity, geometries, geometry_count, number, size, walk, counters, log)
        return
    count(counters, COUNT_TRIANGLE_TESTS, 1)
    # Steps 1 and 2 of the method: corners relative to the ray, sheared, in float32.
    shear, kx, ky = walk + SHEAR, axis_offset(kz, 1), axis_offset(kz, 2)
    scale = load_f32(shear + SHEAR_SCALE)
    origin_x, origin_y, origin_z = load_f32(shear), load_f32(shear + 4), load_f32(shear + 8)
    shear_x, shear_y, shear_z = load_f32(shear + 12), load_f32(shear + 16), load_f32(shear + 20)
    along = at + 16 * kz
    az = load_f32(along) * scale - origin_z
    bz = load_f32(along + 48) * scale - origin_z
    cz = load_f32(along + 96) * scale - origin_z
    ax = (load_f32(at + kx) * scale - origin_x) - shear_x * az
    bx = (load_f32(at + kx + 48) * scale - origin_x) - shear_x * bz
    cx = (load_f32(at + kx + 96) * scale - origin_x) - shear_x * cz
    ay = (load_f32(at + ky) * scale - origin_y) - shear_y * az
    by = (load_f32(at + ky + 48) * scale - origin_y) - shear_y * bz
    cy = (load_f32(at + ky + 96) * scale - origin_y) - shear_y * cz
    u, v, w = edge_functions(ax, ay, bx, by, cx, cy)
    det = (u + v) + w
    # A degenerate triangle is kept for updates only; rounding could grant it a hit (DEG-3).
    if identity < 0 or not covers(u, v, w, det, ax, ay, bx, by, cx, cy):
        count(counters, COUNT_REJECTED_MISSED, 1)
        log_candidate(
            log, EVENT_CANDIDATE, VERDICT_MISSED, 0, geometries, geometry_count, number, size,
            np.nan, np.nan, end, v / det, w / det, u / det, walk,
        )  # fmt: skip
        return
    count(counters, COUNT_TRIANGLE_HITS, 1)
    az, bz, cz = shear_z * az, shear_z * bz, shear_z * cz
    t = np.float32((((u * np.float64(az) + v * np.float64(bz)) + w * np.float64(cz)) / det) / np.float64(scale))
    kind, verdict = meet_triangle(number, opacity, t, v, w, det, kz, geometries, geometry_count, walk, counters)
    count_reason(counters, CANDIDATE_REASON_OF, verdict)
    log_candidate(
        log, EVENT_CANDIDATE, verdict, kind, geometries, geometry_count, number, size,
        t, np.nan, end, v / det, w / det, u / det, walk,
    )  # fmt: skip


@inline_jit
def meet_triangle(number, opacity, t, v, w, det, kz, geometries, geometry_count, walk, counters):
    """A triangle that the ray's line belongs to: facing, then what becomes of the candidate: (hit kind, verdict)."""
    instance_flags = load_i64(walk + INSTANCE_FLAGS)
    kind = hit_kind((det > 0.0) == (load_f32(walk + OBJECT_DIRECTION + 4 * kz) > np.float32(0.0)), instance_flags)
    if is_facing_culled(kind, instance_flags, load_i64(walk + RAY_FLAGS)):
        count(counters, COUNT_REJECTED_FACING, 1)
        return kind, VERDICT_BACK_FACE_CULLED if kind == BACK_FACE else VERDICT_FRONT_FACE_CULLED
    attribute_0, attribute_1 = np.float32(v / det), np.float32(w / det)
    if opacity != OPACITY_OPAQUE or load_i64(load_i64(walk + WORLD) + WORLD_RECORD_COUNT) >= 0:
        return kind, offer(
            True, t, kind, attribute_0, attribute_1, opacity, number, geometries, geometry_count, walk, counters
        )
    # Opaque and without a table: no shader is asked.
    verdict = outside_interval(True, t, walk)
    if verdict == VERDICT_NONE:
        verdict = tie_verdict(True, t, opacity, number, walk)
    if verdict != VERDICT_NONE:
        count(counters, COUNT_REJECTED_INTERVAL, 1)
        return kind, verdict
    geometry = find_geometry(geometries, geometry_count, number)
    primitive = number - first_of_geometry(geometries, geometry)
    verdict = commit(
        True, t, kind, attribute_0, attribute_1, opacity, number, geometry, primitive, VERDICT_COMMITTED, walk, counters
    )
    return kind, verdict


@jit
def test_box_leaf(packs, first, last, geometries, geometry_count, walk, size, counters, log):
    """All procedural boxes of a leaf, in storage order, until the search ends."""
    for pack in range(first, last):
        address = packs + pack * BOX_PACK_SIZE
        lanes = np.uint32(15)
        if counters is None and log is None:
            # Only counters and log want to hear of boxes that are missed. The ray's own end: see test_box.
            end = load_f32(walk + T_MAX) * WIDEN
            lanes = box_pack(address, walk + SLAB_BOTTOM, load_f32(walk + T_MIN), end)
        while lanes != 0:
            lane = lowest_bit(lanes)
            lanes &= lanes - np.uint32(1)
            if load_i32(address + BOX_PACK_IDS + 4 * lane) == UNUSED_LANE:
                break
            test_box(address + 4 * lane, geometries, geometry_count, walk, size, counters, log)
            if load_i64(walk + ENDED) != 0:
                return


@jit
def test_box(at, geometries, geometry_count, walk, size, counters, log):
    """One procedural box: is the ray's interval in it, then its intersection program (PROC-1 to PROC-8)."""
    identity = np.int64(load_i32(at + BOX_PACK_IDS))
    number = identity & PRIMITIVE_BITS
    opacity = opacity_of(identity, walk)
    end = load_f32(walk + T_CURRENT)
    if opacity >= OPACITY_CULLED_OPAQUE:
        reject_culled(opacity, geometries, geometry_count, number, size, walk, counters, log)
        return
    count(counters, COUNT_PROCEDURAL_TESTS, 1)
    low_x, low_y, low_z = np.float64(load_f32(at)), np.float64(load_f32(at + 16)), np.float64(load_f32(at + 32))
    high_x, high_y = np.float64(load_f32(at + 48)), np.float64(load_f32(at + 64))
    high_z = np.float64(load_f32(at + 80))
    ray = walk + OBJECT_ORIGIN
    ox, oy, oz = np.float64(load_f32(ray)), np.float64(load_f32(ray + 4)), np.float64(load_f32(ray + 8))
    dx, dy, dz = np.float64(load_f32(ray + 12)), np.float64(load_f32(ray + 16)), np.float64(load_f32(ray + 20))
    entry, leave, entry_axis, exit_axis = box_interval(
        low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz
    )
    # Against the ray's own end, not the current one: what a program reports is judged by its t, so this only decides
    # which programs run, and does so alike in every order of enumeration.
    is_candidate = max(entry, np.float64(load_f32(walk + T_MIN))) <= min(leave, np.float64(load_f32(walk + T_MAX)))
    if not is_candidate:
        count(counters, COUNT_REJECTED_MISSED, 1)
    event = log_candidate(
        log, EVENT_CANDIDATE, VERDICT_NOTHING_REPORTED if is_candidate else VERDICT_MISSED, 0,
        geometries, geometry_count, number, size, entry, leave, end, np.nan, np.nan, np.nan, walk,
    )  # fmt: skip
    if not is_candidate:
        return
    geometry = find_geometry(geometries, geometry_count, number)
    record = record_of(geometry, False, walk)
    if load_i64(walk + FAULT) != 0:
        if log is not None and event != 0:
            set_verdict(event, VERDICT_HIT_GROUP_FAULT)
        return
    program = intersection_program(record, walk)
    count(counters, COUNT_REJECTED_NOTHING_REPORTED, 1)  # taken back when it reports
    if program == PROGRAM_SPHERE or program == PROGRAM_SPHERE_FAR_FIRST:
        found, near, far = sphere_roots(low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz)
        if not found:
            return
        if program == PROGRAM_SPHERE:
            first, first_kind, second, second_kind, always = near, 0, far, 1, False
        else:
            first, first_kind, second, second_kind, always = far, 65, near, 64, True
    elif program == PROGRAM_BOX:
        first, first_kind = np.float32(entry), 16 + entry_axis
        second, second_kind, always = np.float32(leave), 32 + exit_axis, False
    elif program == PROGRAM_QUERY:  # the caller is the intersection program
        decided, first = next_decision(walk)
        if not decided:
            count(counters, COUNT_REJECTED_NOTHING_REPORTED, -1)
            if log is not None and event != 0:
                set_verdict(event, VERDICT_RETURNED_TO_CALLER)
        if not decided or np.isnan(first):
            return
        first_kind, second, second_kind, always = 0, np.float32(np.nan), -1, False
        opacity = np.int64(OPACITY_NON_OPAQUE)  # a commit is a commit: RAY-6 literally, no DET-5
    elif program == PROGRAM_REPORT_T:
        first, first_kind, second, second_kind, always = load_f32(walk + REPORT_T), 5, np.float32(np.nan), -1, False
    else:
        return
    primitive = number - first_of_geometry(geometries, geometry)
    attribute = np.float32(primitive) + np.float32(0.25)
    count(counters, COUNT_REJECTED_NOTHING_REPORTED, -1)
    any_accepted = False
    for step in range(2):
        t, kind = (first, first_kind) if step == 0 else (second, second_kind)
        if kind < 0:
            break
        count(counters, COUNT_PROCEDURAL_REPORTS, 1)
        before = load_f32(walk + T_CURRENT)
        verdict = offer(
            False, t, kind, attribute, np.float32(kind), opacity, number, geometries, geometry_count, walk, counters
        )
        count_reason(counters, CANDIDATE_REASON_OF, verdict)
        log_candidate(
            log, EVENT_REPORT, verdict, kind, geometries, geometry_count, number, size,
            t, np.nan, before, attribute, np.float32(kind), np.nan, walk,
        )  # fmt: skip
        ended = load_i64(walk + ENDED) != 0
        accepted = verdict == VERDICT_COMMITTED or verdict == VERDICT_ANY_HIT_ACCEPTED or ended
        if log is not None and event != 0 and (accepted or not any_accepted):
            set_verdict(event, verdict)
        any_accepted = any_accepted or accepted or verdict == VERDICT_SURFACE_PASSED
        if ended or (accepted and not always):
            break
