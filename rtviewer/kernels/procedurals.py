"""The procedural boxes of a leaf: which of them are candidates, and what their intersection programs report."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import inline_jit, jit
from rtviewer.kernels.candidate_block import call_intersection
from rtviewer.kernels.candidates import (
    find_geometry,
    first_of_geometry,
    log_candidate,
    may_repeat,
    opacity_of,
    reject_culled,
)
from rtviewer.kernels.constants import (
    BOX_PACK_IDS,
    BOX_PACK_SIZE,
    COUNT_PROCEDURAL_REPORTS,
    COUNT_PROCEDURAL_TESTS,
    COUNT_REJECTED_MISSED,
    COUNT_REJECTED_NOTHING_REPORTED,
    EVENT_CANDIDATE,
    EVENT_REPEATED,
    EVENT_REPORT,
    FIRST_USER_PROGRAM,
    OPACITY_CULLED_OPAQUE,
    OPACITY_NON_OPAQUE,
    OPACITY_OPAQUE,
    PRIMITIVE_BITS,
    PROGRAM_QUERY,
    UNUSED_LANE,
    VERDICT_ANY_HIT_ACCEPTED,
    VERDICT_COMMITTED,
    VERDICT_HIT_GROUP_FAULT,
    VERDICT_MISSED,
    VERDICT_NONE,
    VERDICT_NOTHING_REPORTED,
    VERDICT_RETURNED_TO_CALLER,
    VERDICT_SURFACE_PASSED,
)
from rtviewer.kernels.events import (
    CANDIDATE_REASON_OF,
    count,
    count_reason,
    set_verdict,
)
from rtviewer.kernels.extremes import largest, least
from rtviewer.kernels.hit_groups import intersection_program, next_decision, record_of
from rtviewer.kernels.intersections import (
    REPORT_KINDS,
    REPORT_TIMES,
    fill_reports,
    put_report,
)
from rtviewer.kernels.memory import load_f32, load_i32, load_i64
from rtviewer.kernels.parts import call_offer, or_zero
from rtviewer.kernels.ray_box import WIDEN, box_interval
from rtviewer.kernels.spheres import meet_sphere, spheres
from rtviewer.kernels.state import (
    ENDED,
    FAULT,
    OBJECT_ORIGIN,
    SLAB_BOTTOM,
    SPHERE_RAY,
    SPHERE_ROOTS,
    T_CURRENT,
    T_MAX,
    T_MIN,
    WORLD,
    WORLD_OFFER,
)
from rtviewer.kernels.vector import box_pack, lowest_bit


@inline_jit
def test_box_leaf(packs, first, last, geometries, geometry_count, walk, size, are_spheres, counters, log):
    """All procedural boxes of a leaf, in storage order, until the search ends. ``are_spheres``: as of
    ``spheres.begin_spheres``."""
    for pack in range(first, last):
        address = packs + pack * BOX_PACK_SIZE
        lanes = np.uint32(15)
        if counters is None and log is None and are_spheres:
            ray, roots = walk + SPHERE_RAY, walk + SPHERE_ROOTS
            lanes = spheres(address, ray, load_f32(walk + T_MIN), load_f32(walk + T_CURRENT), roots)
        elif counters is None and log is None:
            # Only counters and log want to hear of boxes that are missed. The ray's own end: see test_box.
            end = load_f32(walk + T_MAX) * WIDEN
            lanes = box_pack(address, walk + SLAB_BOTTOM, load_f32(walk + T_MIN), end)
        is_again = False
        while lanes != 0:
            lane = lowest_bit(lanes)
            identity = np.int64(load_i32(address + BOX_PACK_IDS + 4 * lane))
            if identity == UNUSED_LANE:
                break
            number, is_done, ran = identity & PRIMITIVE_BITS, False, False
            if counters is None and log is None and are_spheres and opacity_of(identity, walk) == OPACITY_OPAQUE:
                roots = walk + SPHERE_ROOTS + 4 * lane
                is_done = meet_sphere(address + 4 * lane, roots, number, geometries, geometry_count, walk)
            if not is_done:
                ran = test_box(address + 4 * lane, geometries, geometry_count, walk, size, counters, log)
            if load_i64(walk + ENDED) != 0:
                return
            is_again = ran and not is_again and may_repeat(number, geometries, geometry_count, walk)
            if is_again:
                log_candidate(
                    log, EVENT_REPEATED, VERDICT_NONE, 0, geometries, geometry_count, number, size,
                    np.nan, np.nan, load_f32(walk + T_CURRENT), np.nan, np.nan, np.nan, walk,
                )  # fmt: skip
            else:
                lanes &= lanes - np.uint32(1)


@jit
def test_box(at, geometries, geometry_count, walk, size, counters, log):
    """One procedural box: is the ray's interval in it, then its intersection program (PROC-1 to PROC-8).

    Returns whether the program ran.
    """
    identity = np.int64(load_i32(at + BOX_PACK_IDS))
    number = identity & PRIMITIVE_BITS
    opacity = opacity_of(identity, walk)
    end = load_f32(walk + T_CURRENT)
    if opacity >= OPACITY_CULLED_OPAQUE:
        reject_culled(opacity, geometries, geometry_count, number, size, walk, counters, log)
        return False
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
    is_candidate = largest(entry, np.float64(load_f32(walk + T_MIN))) <= least(
        leave, np.float64(load_f32(walk + T_MAX))
    )
    if not is_candidate:
        count(counters, COUNT_REJECTED_MISSED, 1)
    event = log_candidate(
        log, EVENT_CANDIDATE, VERDICT_NOTHING_REPORTED if is_candidate else VERDICT_MISSED, 0,
        geometries, geometry_count, number, size, entry, leave, end, np.nan, np.nan, np.nan, walk,
    )  # fmt: skip
    if not is_candidate:
        return False
    geometry = find_geometry(geometries, geometry_count, number)
    record = record_of(geometry, False, walk)
    if load_i64(walk + FAULT) != 0:
        if log is not None and event != 0:
            set_verdict(event, VERDICT_HIT_GROUP_FAULT)
        return False
    program = intersection_program(record, walk)
    count(counters, COUNT_REJECTED_NOTHING_REPORTED, 1)  # taken back when it reports
    primitive = number - first_of_geometry(geometries, geometry)
    if program >= FIRST_USER_PROGRAM:
        call_intersection(
            program, at, geometry, primitive, opacity, number, geometries, geometry_count, walk, size, event,
            counters, log,
        )  # fmt: skip
        return True
    if program == PROGRAM_QUERY:  # the caller is the intersection program
        decided, first = next_decision(walk)
        if not decided:
            count(counters, COUNT_REJECTED_NOTHING_REPORTED, -1)
            if log is not None and event != 0:
                set_verdict(event, VERDICT_RETURNED_TO_CALLER)
        if not decided or np.isnan(first):
            return False
        put_report(walk, 0, first, 0)
        reports, always = 1, False
        opacity = np.int64(OPACITY_NON_OPAQUE)  # a commit is a commit: RAY-6 literally, no DET-5
    else:
        reports, always = fill_reports(program, at, entry, leave, entry_axis, exit_axis, walk)
    any_accepted = False
    for step in range(reports):
        t, kind = load_f32(walk + REPORT_TIMES + 4 * step), np.int64(load_i32(walk + REPORT_KINDS + 4 * step))
        outcome = report_hit(
            t, kind, np.float32(primitive) + np.float32(0.25), np.float32(kind), opacity, number, geometries,
            geometry_count, walk, size, event, any_accepted, step == 0, counters, log,
        )  # fmt: skip
        any_accepted = any_accepted or outcome != 0
        if load_i64(walk + ENDED) != 0 or (outcome == 1 and not always):
            break
    return True


@jit
def report_hit(
    t, kind, attribute_0, attribute_1, opacity, number, geometries, geometry_count, walk, size, event,
    any_accepted, is_first, counters, log,
):  # fmt: skip
    """ReportHit (PROC-2): 1 when the hit was accepted, 2 when an x-ray passed it, else 0. ``event``: the candidate's,
    which gets the verdict that counts; ``any_accepted``: whether an earlier report of this call was accepted or passed;
    ``is_first``: whether there was no earlier one."""
    count(counters, COUNT_PROCEDURAL_REPORTS, 1)
    if is_first:
        count(counters, COUNT_REJECTED_NOTHING_REPORTED, -1)
    before = load_f32(walk + T_CURRENT)
    verdict = call_offer(
        load_i64(load_i64(walk + WORLD) + WORLD_OFFER), np.int64(0), t, np.int64(kind), attribute_0, attribute_1,
        opacity, number, geometries, geometry_count, walk, np.int64(or_zero(counters)),
    )  # fmt: skip
    count_reason(counters, CANDIDATE_REASON_OF, verdict)
    log_candidate(
        log, EVENT_REPORT, verdict, kind, geometries, geometry_count, number, size,
        t, np.nan, before, attribute_0, attribute_1, np.nan, walk,
    )  # fmt: skip
    accepted = verdict == VERDICT_COMMITTED or verdict == VERDICT_ANY_HIT_ACCEPTED or load_i64(walk + ENDED) != 0
    if log is not None and event != 0 and (accepted or not any_accepted):
        set_verdict(event, verdict)
    if verdict == VERDICT_SURFACE_PASSED:
        return 2
    return 1 if accepted else 0
