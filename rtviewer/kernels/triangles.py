"""The triangles of a leaf: which of them the ray meets."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import inline_jit, jit
from rtviewer.kernels.candidates import (
    commit,
    find_geometry,
    first_of_geometry,
    log_candidate,
    may_repeat,
    opacity_of,
    outside_interval,
    reject_culled,
    tie_verdict,
)
from rtviewer.kernels.constants import (
    BACK_FACE,
    COUNT_REJECTED_FACING,
    COUNT_REJECTED_INTERVAL,
    COUNT_REJECTED_MISSED,
    COUNT_TRIANGLE_HITS,
    COUNT_TRIANGLE_TESTS,
    EVENT_CANDIDATE,
    EVENT_REPEATED,
    INDEXED_PACK_SIZE,
    OPACITY_CULLED_OPAQUE,
    OPACITY_OPAQUE,
    PACK_IDS,
    PRIMITIVE_BITS,
    TRIANGLE_PACK_SIZE,
    UNUSED_LANE,
    VERDICT_ANY_HIT_ACCEPTED,
    VERDICT_ANY_HIT_IGNORED,
    VERDICT_BACK_FACE_CULLED,
    VERDICT_COMMITTED,
    VERDICT_FRONT_FACE_CULLED,
    VERDICT_MISSED,
    VERDICT_NONE,
)
from rtviewer.kernels.culling import hit_kind, is_facing_culled
from rtviewer.kernels.events import CANDIDATE_REASON_OF, count, count_reason
from rtviewer.kernels.memory import (
    load_f32,
    load_f64,
    load_i32,
    load_i64,
    load_u32,
    store_f32,
    store_i32,
)
from rtviewer.kernels.parts import call_offer, or_zero
from rtviewer.kernels.ray_triangle import covers, edge_functions
from rtviewer.kernels.state import (
    BLAS,
    BLAS_GEOMETRIES,
    BLAS_GEOMETRY_COUNT,
    BLAS_INDICES,
    BLAS_VERTICES,
    EDGES,
    ENDED,
    INSTANCE_FLAGS,
    KZ,
    OBJECT_DIRECTION,
    PACK,
    PACK_FOUND,
    RAY_FLAGS,
    SHEAR,
    SHEAR_SCALE,
    T_CURRENT,
    WORLD,
    WORLD_OFFER,
    WORLD_RECORD_COUNT,
    WORLD_REPEAT,
)
from rtviewer.kernels.vector import lowest_bit


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
    repeats = load_i64(load_i64(walk + WORLD) + WORLD_REPEAT) != 0
    while lanes != 0 and load_i64(walk + ENDED) == 0:
        lane = lowest_bit(lanes)
        lanes &= lanes - np.uint32(1)
        edges = walk + EDGES + 8 * lane
        u, v, w = load_f64(edges), load_f64(edges + 32), load_f64(edges + 64)
        # A scaled ray was not tested, on an edge it has to be decided whose it is, and calls may be repeated.
        if is_scaled or repeats or u == 0.0 or v == 0.0 or w == 0.0:
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
    if (verdict == VERDICT_ANY_HIT_IGNORED or verdict == VERDICT_ANY_HIT_ACCEPTED) and may_repeat(
        number, geometries, geometry_count, walk
    ):
        offer_triangle_again(
            t, kind, u, v, w, det, opacity, number, geometries, geometry_count, walk, size, counters, log
        )


@jit
def offer_triangle_again(t, kind, u, v, w, det, opacity, number, geometries, geometry_count, walk, size, counters, log):
    """The same hit reported once more, as a triangle met through a second reference would be (AH-3)."""
    end = load_f32(walk + T_CURRENT)
    log_candidate(
        log, EVENT_REPEATED, VERDICT_NONE, kind, geometries, geometry_count, number, size,
        t, np.nan, end, v / det, w / det, u / det, walk,
    )  # fmt: skip
    count(counters, COUNT_TRIANGLE_TESTS, 1)
    count(counters, COUNT_TRIANGLE_HITS, 1)
    verdict = call_offer(
        load_i64(load_i64(walk + WORLD) + WORLD_OFFER), np.int64(1), t, np.int64(kind), np.float32(v / det),
        np.float32(w / det), opacity, number, geometries, geometry_count, walk, np.int64(or_zero(counters)),
    )  # fmt: skip
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
        return kind, call_offer(
            load_i64(load_i64(walk + WORLD) + WORLD_OFFER), np.int64(1), t, np.int64(kind), attribute_0, attribute_1,
            opacity, number, geometries, geometry_count, walk, np.int64(or_zero(counters)),
        )  # fmt: skip
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
