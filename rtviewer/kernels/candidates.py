"""Candidates: triangles and procedural boxes of a leaf, tested in the order of CULL-5, and what becomes of each."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.constants import (
    BACK_FACE,
    BOX_PACK_SIZE,
    COUNT_ANY_HIT_CALLS,
    COUNT_COMMITS,
    COUNT_PROCEDURAL_REPORTS,
    COUNT_PROCEDURAL_TESTS,
    COUNT_REJECTED_CULLED,
    COUNT_REJECTED_FACING,
    COUNT_REJECTED_INTERVAL,
    COUNT_REJECTED_MISSED,
    COUNT_TRIANGLE_HITS,
    COUNT_TRIANGLE_TESTS,
    EVENT_CANDIDATE,
    EVENT_REPORT,
    GEOMETRY_FIRST_PRIMITIVE,
    GEOMETRY_SIZE,
    ID_OPAQUE,
    OPACITY_CULLED_NON_OPAQUE,
    OPACITY_CULLED_OPAQUE,
    OPACITY_NON_OPAQUE,
    OPACITY_OPAQUE,
    PRIMITIVE_BITS,
    PROGRAM_BOX,
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
    VERDICT_MISSED,
    VERDICT_NONE,
    VERDICT_NOTHING_REPORTED,
    VERDICT_TIE_LOST,
)
from rtviewer.kernels.culling import hit_kind, is_facing_culled
from rtviewer.kernels.events import add_event, count
from rtviewer.kernels.memory import load_f32, load_i32, load_u32
from rtviewer.kernels.programs import (
    ACCEPT_HIT_AND_END_SEARCH,
    IGNORE_HIT,
    any_hit,
    box_axes,
    sphere_roots,
)
from rtviewer.kernels.ray_box import box_candidate
from rtviewer.kernels.ray_triangle import covers, edge_functions
from rtviewer.kernels.state import (
    ANY_HIT,
    BLAS_GEOMETRY_COUNT,
    ENDED,
    HIT_GEOMETRY,
    HIT_INSTANCE,
    HIT_IS_TRIANGLE,
    HIT_KIND,
    HIT_NUMBER,
    HIT_PRIMITIVE,
    HIT_WAS_OPAQUE,
    INTERSECTION,
    OPACITY_OF_NON_OPAQUE,
    OPACITY_OF_OPAQUE,
    RAY_FLAGS,
)


@jit
def find_geometry(geometries, geometry_count, number):
    """Index of the geometry that holds a primitive number: the last whose first primitive is not above it."""
    low, high = 0, geometry_count - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if np.int64(load_u32(geometries + middle * GEOMETRY_SIZE + GEOMETRY_FIRST_PRIMITIVE)) <= number:
            low = middle
        else:
            high = middle - 1
    return low


@jit
def first_of_geometry(geometries, geometry):
    return np.int64(load_u32(geometries + geometry * GEOMETRY_SIZE + GEOMETRY_FIRST_PRIMITIVE))


@jit
def wins_tie(is_triangle, instance, number, hit):
    """DET-5 for equal t: largest key among triangles, smallest among procedurals, procedural over triangle.

    Reports of one intersection call stand in their own order: the later replaces the earlier.
    """
    if (hit[HIT_IS_TRIANGLE] != 0) != is_triangle:
        return not is_triangle
    same_instance = instance == hit[HIT_INSTANCE]
    if is_triangle:
        return instance > hit[HIT_INSTANCE] or (same_instance and number > hit[HIT_NUMBER])
    return instance < hit[HIT_INSTANCE] or (same_instance and number <= hit[HIT_NUMBER])


@jit
def interval_verdict(is_triangle, t, opacity, instance, number, call_real, hit, hit_real):
    """RAY-6 against the current end, and ties between opaque hits by DET-5; VERDICT_NONE when inside."""
    t_min, end = call_real[0], hit_real[0]
    if is_triangle:
        if not (t > t_min):
            return VERDICT_AT_OR_BEFORE_T_MIN
    elif not (t >= t_min):
        return VERDICT_AT_OR_BEFORE_T_MIN
    if t == end and hit[HIT_INSTANCE] >= 0 and hit[HIT_WAS_OPAQUE] != 0 and opacity == OPACITY_OPAQUE:
        return VERDICT_NONE if wins_tie(is_triangle, instance, number, hit) else VERDICT_TIE_LOST
    if is_triangle:
        return VERDICT_NONE if t < end else VERDICT_AT_OR_BEYOND_CURRENT_END
    return VERDICT_NONE if t <= end else VERDICT_AT_OR_BEYOND_CURRENT_END


@jit
def offer(
    is_triangle, t, kind, attribute_0, attribute_1, opacity, instance, number, geometries, geometry_count,
    call, call_real, hit, hit_real, counters,
):  # fmt: skip
    """TRAV-1 from the interval test on: any-hit where not opaque, commit, end of search. Returns the verdict."""
    verdict = interval_verdict(is_triangle, t, opacity, instance, number, call_real, hit, hit_real)
    if verdict != VERDICT_NONE:
        count(counters, COUNT_REJECTED_INTERVAL, 1)
        return verdict
    geometry = find_geometry(geometries, geometry_count, number)
    primitive = number - first_of_geometry(geometries, geometry)
    verdict = VERDICT_COMMITTED
    if opacity == OPACITY_NON_OPAQUE:
        count(counters, COUNT_ANY_HIT_CALLS, 1)
        action = any_hit(call[ANY_HIT], geometry, primitive)
        if action == IGNORE_HIT:
            return VERDICT_ANY_HIT_IGNORED
        verdict = VERDICT_ANY_HIT_ACCEPTED
        if action == ACCEPT_HIT_AND_END_SEARCH:
            verdict = VERDICT_ANY_HIT_ENDED_SEARCH
            hit[ENDED] = 1
    count(counters, COUNT_COMMITS, 1)
    hit[HIT_INSTANCE] = instance
    hit[HIT_GEOMETRY] = geometry
    hit[HIT_PRIMITIVE] = primitive
    hit[HIT_KIND] = kind
    hit[HIT_NUMBER] = number
    hit[HIT_IS_TRIANGLE] = 1 if is_triangle else 0
    hit[HIT_WAS_OPAQUE] = 1 if opacity == OPACITY_OPAQUE else 0
    hit_real[0] = t
    hit_real[1] = attribute_0
    hit_real[2] = attribute_1
    if call[RAY_FLAGS] & RAY_ACCEPT_FIRST_HIT and hit[ENDED] == 0:
        hit[ENDED] = 1
        verdict = VERDICT_FIRST_HIT_ENDED_SEARCH if verdict == VERDICT_COMMITTED else VERDICT_ANY_HIT_FIRST_ENDED
    return verdict


@jit
def log_candidate(
    log, event, verdict, kind, instance, place, geometries, geometry_count, number, size, t, t_exit, end, u, v, w
):
    if log is not None:
        geometry = find_geometry(geometries, geometry_count, number)
        primitive = number - first_of_geometry(geometries, geometry)
        node = place >> 3 if place >= 0 else -1
        lane = place & 7 if place >= 0 else -1
        return add_event(
            log, event, 1, verdict, kind, instance, node, lane, geometry, primitive, size, t, t_exit, end, u, v, w
        )
    return -1


@jit
def test_triangle_leaf(
    packs, first, last, geometries, row, instance, instance_flags, kz, shear, ray, call, call_real,
    hit, hit_real, place, size, counters, log,
):  # fmt: skip
    """All triangles of a leaf, in storage order, until the search ends."""
    for pack in range(first, last):
        address = packs + pack * TRIANGLE_PACK_SIZE
        for lane in range(4):
            at = address + 4 * lane
            identity = np.int64(load_i32(at + 144))
            if identity == UNUSED_LANE:
                break
            number = identity & PRIMITIVE_BITS
            opacity = call[OPACITY_OF_OPAQUE] if identity & ID_OPAQUE else call[OPACITY_OF_NON_OPAQUE]
            test_triangle(
                at, number, opacity, geometries, row[BLAS_GEOMETRY_COUNT], instance, instance_flags, kz, shear,
                ray, call, call_real, hit, hit_real, place, size, counters, log,
            )  # fmt: skip
            if hit[ENDED] != 0:
                return


@jit
def test_triangle(
    at, number, opacity, geometries, geometry_count, instance, instance_flags, kz, shear,
    ray, call, call_real, hit, hit_real, place, size, counters, log,
):  # fmt: skip
    end = hit_real[0]
    if opacity >= OPACITY_CULLED_OPAQUE:
        count(counters, COUNT_REJECTED_CULLED, 1)
        verdict = VERDICT_CULLED_NON_OPAQUE if opacity == OPACITY_CULLED_NON_OPAQUE else VERDICT_CULLED_OPAQUE
        log_candidate(
            log, EVENT_CANDIDATE, verdict, 0, instance, place, geometries, geometry_count, number, size,
            np.nan, np.nan, end, np.nan, np.nan, np.nan,
        )  # fmt: skip
        return
    count(counters, COUNT_TRIANGLE_TESTS, 1)
    # Steps 1 and 2 of the method: corners relative to the ray, sheared, in float32.
    kx = 16 * (kz + 1 if kz < 2 else 0)
    ky = 16 * (kz - 1 if kz > 0 else 2)
    kzo = 16 * kz
    scale = shear[6]
    az = load_f32(at + kzo) * scale - shear[2]
    bz = load_f32(at + 48 + kzo) * scale - shear[2]
    cz = load_f32(at + 96 + kzo) * scale - shear[2]
    ax = (load_f32(at + kx) * scale - shear[0]) - shear[3] * az
    bx = (load_f32(at + 48 + kx) * scale - shear[0]) - shear[3] * bz
    cx = (load_f32(at + 96 + kx) * scale - shear[0]) - shear[3] * cz
    ay = (load_f32(at + ky) * scale - shear[1]) - shear[4] * az
    by = (load_f32(at + 48 + ky) * scale - shear[1]) - shear[4] * bz
    cy = (load_f32(at + 96 + ky) * scale - shear[1]) - shear[4] * cz
    if log is None:
        # Rounded products never give a wrong sign, so float32 may reject. A NaN rejects nothing.
        u32 = cx * by - cy * bx
        v32 = ax * cy - ay * cx
        w32 = bx * ay - by * ax
        negative = u32 < np.float32(0) or v32 < np.float32(0) or w32 < np.float32(0)
        positive = u32 > np.float32(0) or v32 > np.float32(0) or w32 > np.float32(0)
        if negative and positive:
            count(counters, COUNT_REJECTED_MISSED, 1)
            return
    u, v, w = edge_functions(ax, ay, bx, by, cx, cy)
    det = (u + v) + w
    if not covers(u, v, w, det, ax, ay, bx, by, cx, cy):
        count(counters, COUNT_REJECTED_MISSED, 1)
        log_candidate(
            log, EVENT_CANDIDATE, VERDICT_MISSED, 0, instance, place, geometries, geometry_count, number, size,
            np.nan, np.nan, end, v / det, w / det, u / det,
        )  # fmt: skip
        return
    count(counters, COUNT_TRIANGLE_HITS, 1)
    az, bz, cz = shear[5] * az, shear[5] * bz, shear[5] * cz
    t = np.float32(
        (((u * np.float64(az) + v * np.float64(bz)) + w * np.float64(cz)) / det) / np.float64(scale)
    )
    barycentric_1, barycentric_2 = np.float32(v / det), np.float32(w / det)
    kind = hit_kind((det > 0.0) == (ray[3 + kz] > np.float32(0.0)), instance_flags)
    if is_facing_culled(kind, instance_flags, call[RAY_FLAGS]):
        count(counters, COUNT_REJECTED_FACING, 1)
        verdict = VERDICT_BACK_FACE_CULLED if kind == BACK_FACE else VERDICT_FRONT_FACE_CULLED
    else:
        verdict = offer(
            True, t, kind, barycentric_1, barycentric_2, opacity, instance, number, geometries, geometry_count,
            call, call_real, hit, hit_real, counters,
        )  # fmt: skip
    log_candidate(
        log, EVENT_CANDIDATE, verdict, kind, instance, place, geometries, geometry_count, number, size,
        t, np.nan, end, v / det, w / det, u / det,
    )  # fmt: skip


@jit
def test_box_leaf(
    packs, first, last, geometries, row, instance, ray, call, call_real,
    hit, hit_real, place, size, counters, log,
):  # fmt: skip
    """All procedural boxes of a leaf, in storage order, until the search ends."""
    for pack in range(first, last):
        address = packs + pack * BOX_PACK_SIZE
        for lane in range(4):
            at = address + 4 * lane
            identity = np.int64(load_i32(at + 96))
            if identity == UNUSED_LANE:
                break
            number = identity & PRIMITIVE_BITS
            opacity = call[OPACITY_OF_OPAQUE] if identity & ID_OPAQUE else call[OPACITY_OF_NON_OPAQUE]
            test_box(
                at, number, opacity, geometries, row[BLAS_GEOMETRY_COUNT], instance, ray, call, call_real,
                hit, hit_real, place, size, counters, log,
            )  # fmt: skip
            if hit[ENDED] != 0:
                return


@jit
def test_box(
    at, number, opacity, geometries, geometry_count, instance, ray, call, call_real,
    hit, hit_real, place, size, counters, log,
):  # fmt: skip
    """One procedural box: is the ray's interval in it, then its intersection program (PROC-1 to PROC-8)."""
    end = hit_real[0]
    if opacity >= OPACITY_CULLED_OPAQUE:
        count(counters, COUNT_REJECTED_CULLED, 1)
        verdict = VERDICT_CULLED_NON_OPAQUE if opacity == OPACITY_CULLED_NON_OPAQUE else VERDICT_CULLED_OPAQUE
        log_candidate(
            log, EVENT_CANDIDATE, verdict, 0, instance, place, geometries, geometry_count, number, size,
            np.nan, np.nan, end, np.nan, np.nan, np.nan,
        )  # fmt: skip
        return
    count(counters, COUNT_PROCEDURAL_TESTS, 1)
    low_x, low_y, low_z = np.float64(load_f32(at)), np.float64(load_f32(at + 16)), np.float64(load_f32(at + 32))
    high_x, high_y = np.float64(load_f32(at + 48)), np.float64(load_f32(at + 64))
    high_z = np.float64(load_f32(at + 80))
    ox, oy, oz = np.float64(ray[0]), np.float64(ray[1]), np.float64(ray[2])
    dx, dy, dz = np.float64(ray[3]), np.float64(ray[4]), np.float64(ray[5])
    entry, leave = box_candidate(low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz)
    # Against the ray's own end, not the current one: what a program reports is judged by its t, so this only decides
    # which programs run, and does so alike in every order of enumeration.
    is_candidate = max(entry, np.float64(call_real[0])) <= min(leave, np.float64(call_real[1]))
    if not is_candidate:
        count(counters, COUNT_REJECTED_MISSED, 1)
    event = log_candidate(
        log, EVENT_CANDIDATE, VERDICT_NOTHING_REPORTED if is_candidate else VERDICT_MISSED, 0, instance, place,
        geometries, geometry_count, number, size, entry, leave, end, np.nan, np.nan, np.nan,
    )  # fmt: skip
    if not is_candidate:
        return
    program = call[INTERSECTION]
    if program == PROGRAM_SPHERE or program == PROGRAM_SPHERE_FAR_FIRST:
        found, near, far = sphere_roots(low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz)
        if not found:
            return
        if program == PROGRAM_SPHERE:
            first, first_kind, second, second_kind, always = near, 0, far, 1, False
        else:
            first, first_kind, second, second_kind, always = far, 65, near, 64, True
    elif program == PROGRAM_BOX:
        entry_axis, exit_axis = box_axes(low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz)
        first, first_kind = np.float32(entry), 16 + entry_axis
        second, second_kind, always = np.float32(leave), 32 + exit_axis, False
    elif program == PROGRAM_REPORT_T:
        first, first_kind, second, second_kind, always = call_real[2], 5, np.float32(np.nan), -1, False
    else:
        return
    attribute = np.float32(number - first_of_geometry(geometries, find_geometry(geometries, geometry_count, number)))
    attribute += np.float32(0.25)
    any_accepted = False
    for step in range(2):
        t, kind = (first, first_kind) if step == 0 else (second, second_kind)
        if kind < 0:
            break
        count(counters, COUNT_PROCEDURAL_REPORTS, 1)
        before = hit_real[0]
        verdict = offer(
            False, t, kind, attribute, np.float32(kind), opacity, instance, number, geometries, geometry_count,
            call, call_real, hit, hit_real, counters,
        )  # fmt: skip
        log_candidate(
            log, EVENT_REPORT, verdict, kind, instance, place, geometries, geometry_count, number, size,
            t, np.nan, before, attribute, np.float32(kind), np.nan,
        )  # fmt: skip
        accepted = verdict == VERDICT_COMMITTED or verdict == VERDICT_ANY_HIT_ACCEPTED or hit[ENDED] != 0
        if log is not None and event >= 0 and (accepted or not any_accepted):
            log.rows[event].verdict = verdict
        any_accepted = any_accepted or accepted
        if hit[ENDED] != 0 or (accepted and not always):
            break
