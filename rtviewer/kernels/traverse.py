"""The walk of one ray through a two-level structure: one source for image, counters and log.

``counters`` and ``log`` are arrays or None; numba compiles one specialisation for each combination that is used, and
what serves a None is not there. So the log cannot tell another story than the image.

Enumeration (TRAV-1, TRAV-7): depth first, nearer boxes first, boxes cut off only when they begin beyond the current
end, so that candidates tying with the committed hit are still offered and DET-5 can choose.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.candidates import test_box_leaf, test_triangle_leaf
from rtviewer.kernels.constants import (
    COUNT_BLAS_NODES_VISITED,
    COUNT_BOX_HITS,
    COUNT_BOX_TESTS,
    COUNT_INSTANCES_ENTERED,
    COUNT_INSTANCES_REJECTED,
    COUNT_STACK_HIGH_WATER,
    COUNT_TLAS_NODES_VISITED,
    EVENT_INSTANCE_ENTERED,
    EVENT_INSTANCE_SKIPPED,
    EVENT_NODE_ENTERED,
    EVENT_NODE_SKIPPED,
    INSTANCE_DESC_SIZE,
    INSTANCE_LEAF_SIZE,
    INSTANCE_SINGULAR,
    NODE_SIZE,
    OPACITY_CULLED_NON_OPAQUE,
    OPACITY_CULLED_OPAQUE,
    VERDICT_BOX_BEYOND_CURRENT_END,
    VERDICT_BOX_MISSED,
    VERDICT_CULLED_NON_OPAQUE,
    VERDICT_CULLED_OPAQUE,
    VERDICT_EMPTY_STRUCTURE,
    VERDICT_INACTIVE_INSTANCE,
    VERDICT_MASK_EXCLUDED,
    VERDICT_NONE,
    VERDICT_PROCEDURALS_SKIPPED,
    VERDICT_SINGULAR_TRANSFORM,
    VERDICT_TRIANGLES_SKIPPED,
)
from rtviewer.kernels.culling import effective_opacity, is_mask_excluded, is_type_skipped
from rtviewer.kernels.events import add_event, count, count_most
from rtviewer.kernels.memory import load_f32, load_i32, load_u32
from rtviewer.kernels.ray_box import SLAB_SIZE, WIDEN, set_slab, slab_axis
from rtviewer.kernels.ray_triangle import SHEAR_SIZE, set_shear
from rtviewer.kernels.state import (
    ANY_HIT,
    BLAS_GEOMETRY_ADDRESS,
    BLAS_HAS_NON_OPAQUE,
    BLAS_HAS_OPAQUE,
    BLAS_IS_TRIANGLES,
    BLAS_LEAF_ADDRESS,
    BLAS_NODE_ADDRESS,
    BLAS_NODE_COUNT,
    ENDED,
    INTERSECTION,
    OPACITY_OF_NON_OPAQUE,
    OPACITY_OF_OPAQUE,
    RAY_FLAGS,
    RAY_MASK,
    TOP_DESC_ADDRESS,
    TOP_LEAF_ADDRESS,
    TOP_NODE_ADDRESS,
    TOP_NODE_COUNT,
    new_call,
    new_hit,
)


class World(NamedTuple):
    """Where everything is. Addresses are valid while the dispatcher that made them lives.

    ``top`` (4,) int64 and ``bottom`` (k, 8) int64: rows named in ``state``. ``top_reach`` (2,) float32: largest
    coordinate, worst condition of a transform. ``bottom_reach`` (k,) float32. ``instance_blas`` (n,) int32: row of
    ``bottom`` per instance, -1 for none.
    """

    top: np.ndarray
    top_reach: np.ndarray
    bottom: np.ndarray
    bottom_reach: np.ndarray
    instance_blas: np.ndarray


class Rays(NamedTuple):
    """``origin``, ``direction`` (n, 3) float32; ``t_min``, ``t_max`` (n,) float32; ``skip`` (n,) bool: not traced."""

    origin: np.ndarray
    direction: np.ndarray
    t_min: np.ndarray
    t_max: np.ndarray
    skip: np.ndarray


class Arguments(NamedTuple):
    """What each ray is traced with; every array has one element for all rays or n elements.

    ``flags``, ``mask`` uint32; ``any_hit``, ``intersection`` uint32 program numbers; ``report_t`` float32.
    """

    flags: np.ndarray
    mask: np.ndarray
    any_hit: np.ndarray
    intersection: np.ndarray
    report_t: np.ndarray


class Found(NamedTuple):
    """Results. ``t`` (n,) float32; ``index`` (n, 4) int32: instance, geometry, primitive, hit kind, -1 where missed;
    ``attributes`` (n, 2) float32."""

    t: np.ndarray
    index: np.ndarray
    attributes: np.ndarray


class Stack(NamedTuple):
    """Entries of both levels, top-level ones below. Length: all a walk can need, from the depths of the structures.

    ``ref`` int32 child reference; ``entry``, ``leave`` float32 slab interval; ``place`` int64: parent node * 8 + lane.
    """

    ref: np.ndarray
    entry: np.ndarray
    leave: np.ndarray
    place: np.ndarray


@jit
def per_ray(array, ray):
    return array[ray] if array.size > 1 else array[0]


@jit
def trace_rays(world, rays, arguments, found, counters, log, stack, first, last):
    """Trace rays ``first`` to ``last - 1``.

    ``counters``: (n, counter count) int32, zeroed, or None. ``log``: ``events.Log`` or None.
    """
    slab_top = np.empty(SLAB_SIZE, np.float32)
    slab_bottom = np.empty(SLAB_SIZE, np.float32)
    shear = np.empty(SHEAR_SIZE, np.float32)
    object_ray = np.empty(6, np.float32)
    hit, hit_real = new_hit()
    call, call_real = new_call()
    for ray in range(first, last):
        hit[:] = -1
        hit[ENDED] = 0
        hit_real[0] = rays.t_max[ray]
        hit_real[1] = np.float32(0.0)
        hit_real[2] = np.float32(0.0)
        if not rays.skip[ray] and world.top[TOP_NODE_COUNT] > 0:
            call[RAY_FLAGS] = per_ray(arguments.flags, ray)
            call[RAY_MASK] = per_ray(arguments.mask, ray)
            call[ANY_HIT] = per_ray(arguments.any_hit, ray)
            call[INTERSECTION] = per_ray(arguments.intersection, ray)
            call_real[0] = rays.t_min[ray]
            call_real[1] = rays.t_max[ray]
            call_real[2] = per_ray(arguments.report_t, ray)
            row = None if counters is None else counters[ray]
            walk_top(
                world, rays.origin[ray], rays.direction[ray], call, call_real, hit, hit_real,
                slab_top, slab_bottom, shear, object_ray, stack, row, log,
            )  # fmt: skip
        found.t[ray] = hit_real[0]
        found.index[ray, 0] = hit[0]
        found.index[ray, 1] = hit[1]
        found.index[ray, 2] = hit[2]
        found.index[ray, 3] = hit[3]
        found.attributes[ray, 0] = hit_real[1]
        found.attributes[ray, 1] = hit_real[2]
        if log is not None:
            log.offsets[ray + 1] = log.cursor[0]


@jit
def walk_top(
    world, origin, direction, call, call_real, hit, hit_real,
    slab_top, slab_bottom, shear, object_ray, stack, counters, log,
):  # fmt: skip
    """The top level: nodes, then each instance that a leaf names."""
    reach = world.top_reach[0] + max(abs(origin[0]), max(abs(origin[1]), abs(origin[2])))
    set_slab(
        slab_top, origin[0], origin[1], origin[2], direction[0], direction[1], direction[2],
        reach * world.top_reach[1],
    )  # fmt: skip
    nodes, leaves = world.top[TOP_NODE_ADDRESS], world.top[TOP_LEAF_ADDRESS]
    stack.ref[0] = 0
    stack.entry[0] = call_real[0]
    stack.leave[0] = call_real[1]
    stack.place[0] = -1
    size = 1
    while size > 0 and hit[ENDED] == 0:
        size -= 1
        ref, entry, leave, place = stack.ref[size], stack.entry[size], stack.leave[size], stack.place[size]
        if entry > hit_real[0] * WIDEN:
            log_node(log, EVENT_NODE_SKIPPED, VERDICT_BOX_BEYOND_CURRENT_END, 0, -1, size, stack, hit_real)
            continue
        log_node(log, EVENT_NODE_ENTERED, VERDICT_NONE, 0, -1, size, stack, hit_real)
        if ref >= 0:
            count(counters, COUNT_TLAS_NODES_VISITED, 1)
            size = push_children(nodes, ref, slab_top, call_real[0], hit_real, stack, size, counters, log, 0, -1)
            continue
        for leaf in range(~ref >> 2, (~ref >> 2) + (~ref & 3) + 1):
            enter_instance(
                world, leaves + leaf * INSTANCE_LEAF_SIZE, origin, direction, call, call_real, hit, hit_real,
                slab_bottom, shear, object_ray, stack, size, entry, leave, place, counters, log,
            )  # fmt: skip
            if hit[ENDED] != 0:
                break


@jit
def push_children(nodes, node, slab, t_min, hit_real, stack, size, counters, log, level, instance):
    """Test the children of a node and stack those the ray meets, farthest first; returns the stack's new size."""
    address = nodes + node * NODE_SIZE
    bottom = size
    end = hit_real[0] * WIDEN
    for lane in range(8):
        at = address + 4 * lane
        low_x, high_x = load_f32(at), load_f32(at + 32)
        if low_x > high_x:  # an empty lane
            continue
        count(counters, COUNT_BOX_TESTS, 1)
        entry, leave = slab_axis(slab, 0, low_x, high_x)
        near, far = slab_axis(slab, 4, load_f32(at + 64), load_f32(at + 96))
        if near > entry:
            entry = near
        if far < leave:
            leave = far
        near, far = slab_axis(slab, 8, load_f32(at + 128), load_f32(at + 160))
        if near > entry:
            entry = near
        if far < leave:
            leave = far
        if t_min > entry:
            entry = t_min
        if entry > leave * WIDEN or entry > end:
            if log is not None:
                verdict = VERDICT_BOX_MISSED if entry > leave * WIDEN else VERDICT_BOX_BEYOND_CURRENT_END
                add_event(
                    log, EVENT_NODE_SKIPPED, level, verdict, 0, instance, node, lane, -1, -1, size,
                    entry, leave, hit_real[0], 0.0, 0.0, 0.0,
                )  # fmt: skip
            continue
        count(counters, COUNT_BOX_HITS, 1)
        slot = size
        while slot > bottom and stack.entry[slot - 1] < entry:
            stack.ref[slot] = stack.ref[slot - 1]
            stack.entry[slot] = stack.entry[slot - 1]
            stack.leave[slot] = stack.leave[slot - 1]
            stack.place[slot] = stack.place[slot - 1]
            slot -= 1
        stack.ref[slot] = load_i32(at + 192)
        stack.entry[slot] = entry
        stack.leave[slot] = leave
        stack.place[slot] = node * 8 + lane
        size += 1
    count_most(counters, COUNT_STACK_HIGH_WATER, size)
    return size


@jit
def log_node(log, kind, verdict, level, instance, slot, stack, hit_real):
    """The event of a stack entry that was taken off."""
    if log is not None:
        place = stack.place[slot]
        node = place >> 3 if place >= 0 else -1
        lane = place & 7 if place >= 0 else -1
        add_event(
            log, kind, level, verdict, 0, instance, node, lane, -1, -1, slot,
            stack.entry[slot], stack.leave[slot], hit_real[0], 0.0, 0.0, 0.0,
        )  # fmt: skip


@jit
def instance_verdict(world, instance, desc, leaf, call):
    """Steps 1 to 4 of CULL-5 for a whole instance, and what else keeps a ray out; sets the opacities of ``call``."""
    blas = world.instance_blas[instance]
    if blas < 0:
        return VERDICT_INACTIVE_INSTANCE
    if is_mask_excluded(call[RAY_MASK], np.int64(load_u32(desc + 48) >> 24)):
        return VERDICT_MASK_EXCLUDED
    row = world.bottom[blas]
    flags = np.int64(load_u32(desc + 52) >> 24)
    if row[BLAS_NODE_COUNT] == 0:
        return VERDICT_EMPTY_STRUCTURE
    if is_type_skipped(row[BLAS_IS_TRIANGLES] != 0, call[RAY_FLAGS]):
        return VERDICT_TRIANGLES_SKIPPED if row[BLAS_IS_TRIANGLES] else VERDICT_PROCEDURALS_SKIPPED
    of_opaque = effective_opacity(True, flags, call[RAY_FLAGS])
    of_non_opaque = effective_opacity(False, flags, call[RAY_FLAGS])
    call[OPACITY_OF_OPAQUE] = of_opaque
    call[OPACITY_OF_NON_OPAQUE] = of_non_opaque
    opaque_is_out = row[BLAS_HAS_OPAQUE] == 0 or of_opaque >= OPACITY_CULLED_OPAQUE
    non_opaque_is_out = row[BLAS_HAS_NON_OPAQUE] == 0 or of_non_opaque >= OPACITY_CULLED_OPAQUE
    if opaque_is_out and non_opaque_is_out:
        opacity = of_opaque if row[BLAS_HAS_OPAQUE] else of_non_opaque
        return VERDICT_CULLED_NON_OPAQUE if opacity == OPACITY_CULLED_NON_OPAQUE else VERDICT_CULLED_OPAQUE
    if load_u32(leaf + 52) & INSTANCE_SINGULAR:
        return VERDICT_SINGULAR_TRANSFORM
    return VERDICT_NONE


@jit
def to_object(matrix, origin, direction, object_ray):
    """INST-8 and INST-9: the ray in object space, in float32, each operation rounded; t keeps its meaning."""
    for axis in range(3):
        m0, m1 = load_f32(matrix + 16 * axis), load_f32(matrix + 16 * axis + 4)
        m2, m3 = load_f32(matrix + 16 * axis + 8), load_f32(matrix + 16 * axis + 12)
        object_ray[axis] = ((m0 * origin[0] + m1 * origin[1]) + m2 * origin[2]) + m3
        object_ray[axis + 3] = (m0 * direction[0] + m1 * direction[1]) + m2 * direction[2]


@jit
def enter_instance(
    world, leaf, origin, direction, call, call_real, hit, hit_real,
    slab, shear, object_ray, stack, size, entry, leave, place, counters, log,
):  # fmt: skip
    """One instance: filters, then the walk of its bottom level on the stack above ``size``."""
    instance = np.int64(load_i32(leaf + 48))
    desc = world.top[TOP_DESC_ADDRESS] + instance * INSTANCE_DESC_SIZE
    verdict = instance_verdict(world, instance, desc, leaf, call)
    if log is not None:
        kind = EVENT_INSTANCE_ENTERED if verdict == VERDICT_NONE else EVENT_INSTANCE_SKIPPED
        add_event(
            log, kind, 0, verdict, 0, instance, place >> 3, place & 7, -1, -1, size,
            entry, leave, hit_real[0], 0.0, 0.0, 0.0,
        )  # fmt: skip
    if verdict != VERDICT_NONE:
        count(counters, COUNT_INSTANCES_REJECTED, 1)
        return
    count(counters, COUNT_INSTANCES_ENTERED, 1)
    to_object(leaf, origin, direction, object_ray)
    walk_bottom(
        world.bottom[world.instance_blas[instance]], world.bottom_reach[world.instance_blas[instance]], instance,
        np.int64(load_u32(desc + 52) >> 24), call, call_real, hit, hit_real, slab, shear, object_ray,
        stack, size, counters, log,
    )  # fmt: skip


@jit
def walk_bottom(
    row, max_abs, instance, instance_flags, call, call_real, hit, hit_real,
    slab, shear, ray, stack, base, counters, log,
):  # fmt: skip
    """The bottom level of one instance, in its object space."""
    set_slab(slab, ray[0], ray[1], ray[2], ray[3], ray[4], ray[5], max_abs)
    kz = set_shear(shear, ray[0], ray[1], ray[2], ray[3], ray[4], ray[5], max_abs)
    triangles = row[BLAS_IS_TRIANGLES] != 0
    nodes, leaves, geometries = row[BLAS_NODE_ADDRESS], row[BLAS_LEAF_ADDRESS], row[BLAS_GEOMETRY_ADDRESS]
    stack.ref[base] = 0
    stack.entry[base] = call_real[0]
    stack.leave[base] = call_real[1]
    stack.place[base] = -1
    size = base + 1
    while size > base and hit[ENDED] == 0:
        size -= 1
        ref, entry, place = stack.ref[size], stack.entry[size], stack.place[size]
        if entry > hit_real[0] * WIDEN:
            log_node(log, EVENT_NODE_SKIPPED, VERDICT_BOX_BEYOND_CURRENT_END, 1, instance, size, stack, hit_real)
            continue
        log_node(log, EVENT_NODE_ENTERED, VERDICT_NONE, 1, instance, size, stack, hit_real)
        if ref >= 0:
            count(counters, COUNT_BLAS_NODES_VISITED, 1)
            size = push_children(nodes, ref, slab, call_real[0], hit_real, stack, size, counters, log, 1, instance)
            continue
        first, last = ~ref >> 2, (~ref >> 2) + (~ref & 3) + 1
        if triangles:
            test_triangle_leaf(
                leaves, first, last, geometries, row, instance, instance_flags, kz, shear, ray, call, call_real,
                hit, hit_real, place, size, counters, log,
            )  # fmt: skip
        else:
            test_box_leaf(
                leaves, first, last, geometries, row, instance, ray, call, call_real,
                hit, hit_real, place, size, counters, log,
            )  # fmt: skip
