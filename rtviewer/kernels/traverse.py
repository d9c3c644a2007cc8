"""The walk of one ray through a two-level structure: one source for image, counters and log.

``counters`` and ``log`` are addresses or None; numba compiles one specialisation for each combination that is used, and
what serves a None is not there. So the log cannot tell another story than the image.

Enumeration (TRAV-1, TRAV-7): depth first, nearer boxes first, boxes cut off only when they begin beyond the current
end, so that candidates tying with the committed hit are still offered and DET-5 can choose.

``walk`` is the address of the ray's block, laid out in ``state``; ``size`` counts stack entries, those of the top level
below those of the bottom level.
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
    VERDICT_OBJECT_RAY_NOT_FINITE,
    VERDICT_PROCEDURALS_SKIPPED,
    VERDICT_SINGULAR_TRANSFORM,
    VERDICT_TRIANGLES_SKIPPED,
)
from rtviewer.kernels.culling import effective_opacity, is_mask_excluded, is_type_skipped
from rtviewer.kernels.events import add_event, count, count_most
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, load_u32, store_f32, store_i32, store_i64
from rtviewer.kernels.ray_box import WIDEN, set_slab
from rtviewer.kernels.ray_triangle import set_shear
from rtviewer.kernels.state import (
    ANY_HIT,
    ATTRIBUTE_0,
    ATTRIBUTE_1,
    BLAS_GEOMETRIES,
    BLAS_GEOMETRY_COUNT,
    BLAS_HAS_NON_OPAQUE,
    BLAS_HAS_OPAQUE,
    BLAS_INDICES,
    BLAS_IS_TRIANGLES,
    BLAS_LEAVES,
    BLAS_NODE_COUNT,
    BLAS_NODES,
    BLAS_REACH,
    BLAS_ROW_SIZE,
    BLAS_VERTICES,
    DIRECTION,
    ENDED,
    ENTRY_EXIT,
    ENTRY_PLACE,
    ENTRY_REF,
    ENTRY_SIZE,
    ENTRY_T,
    FAULT,
    HIT_GEOMETRY,
    HIT_INSTANCE,
    HIT_KIND,
    HIT_PRIMITIVE,
    INSTANCE,
    INSTANCE_CONTRIBUTION,
    INSTANCE_FLAGS,
    INTERSECTION,
    INTERVAL,
    LOG_COUNT,
    MULTIPLIER,
    OBJECT_DIRECTION,
    OBJECT_ORIGIN,
    OPACITY_OF_NON_OPAQUE,
    OPACITY_OF_OPAQUE,
    ORIGIN,
    QUERY_NEXT,
    RAY_CONTRIBUTION,
    RAY_FLAGS,
    RAY_MASK,
    REPORT_T,
    SHEAR,
    SLAB_BOTTOM,
    SLAB_TOP,
    STACK,
    T_CURRENT,
    T_MAX,
    T_MIN,
    WORLD,
    WORLD_BLASES,
    WORLD_CONDITION,
    WORLD_DESCS,
    WORLD_INSTANCE_BLAS,
    WORLD_LEAVES,
    WORLD_NODE_COUNT,
    WORLD_NODES,
    WORLD_REACH,
)
from rtviewer.kernels.vector import boxes, lowest_bit


class Rays(NamedTuple):
    """``origin``, ``direction`` (n, 3) float32; ``t_min``, ``t_max`` (n,) float32; ``skip`` (n,) bool: not traced."""

    origin: np.ndarray
    direction: np.ndarray
    t_min: np.ndarray
    t_max: np.ndarray
    skip: np.ndarray


class Arguments(NamedTuple):
    """What each ray is traced with; every array has one element for all rays or n elements.

    ``flags``, ``mask`` uint32; ``any_hit``, ``intersection`` uint32 program numbers; ``contribution``, ``multiplier``
    uint32, of which the low four bits count (HG-1); ``report_t`` float32.
    """

    flags: np.ndarray
    mask: np.ndarray
    any_hit: np.ndarray
    intersection: np.ndarray
    contribution: np.ndarray
    multiplier: np.ndarray
    report_t: np.ndarray


class Found(NamedTuple):
    """Results. ``t`` (n,) float32; ``index`` (n, 4) int32: instance, geometry, primitive, hit kind, -1 where missed;
    ``attributes`` (n, 2) float32; ``fault`` (n,) int64 as in ``state``; ``log_end`` (n,) int64: events logged when the
    ray was done, where there is a log."""

    t: np.ndarray
    index: np.ndarray
    attributes: np.ndarray
    fault: np.ndarray
    log_end: np.ndarray


@jit
def per_ray(array, ray):
    return array[ray] if array.size > 1 else array[0]


@jit
def trace_rays(world, rays, arguments, found, counters, log, walk, first, last):
    """Trace rays ``first`` to ``last - 1``.

    ``world``, ``walk``: addresses of blocks laid out in ``state``. ``counters``: (n, counter count) int32, zeroed, or
    None. ``log``: address of a log, or None.
    """
    for ray in range(first, last):
        begin_ray(walk, rays, arguments, ray)
        store_i64(walk + WORLD, world)
        if not rays.skip[ray] and load_i64(world + WORLD_NODE_COUNT) > 0:
            row = None if counters is None else counters.ctypes.data + ray * counters.shape[1] * 4
            walk_top(world, walk, row, log)
        found.t[ray] = load_f32(walk + T_CURRENT)
        found.index[ray, 0] = load_i64(walk + HIT_INSTANCE)
        found.index[ray, 1] = load_i64(walk + HIT_GEOMETRY)
        found.index[ray, 2] = load_i64(walk + HIT_PRIMITIVE)
        found.index[ray, 3] = load_i64(walk + HIT_KIND)
        found.attributes[ray, 0] = load_f32(walk + ATTRIBUTE_0)
        found.attributes[ray, 1] = load_f32(walk + ATTRIBUTE_1)
        found.fault[ray] = load_i64(walk + FAULT)
        if log is not None:
            found.log_end[ray] = load_i64(log + LOG_COUNT)


@jit
def begin_ray(walk, rays, arguments, ray):
    """Fill the block of a walk with a ray and its arguments, and clear its hit."""
    for axis in range(3):
        store_f32(walk + ORIGIN + 4 * axis, rays.origin[ray, axis])
        store_f32(walk + DIRECTION + 4 * axis, rays.direction[ray, axis])
    store_f32(walk + T_MIN, rays.t_min[ray])
    store_f32(walk + T_MAX, rays.t_max[ray])
    store_f32(walk + REPORT_T, per_ray(arguments.report_t, ray))
    store_i64(walk + RAY_FLAGS, np.int64(per_ray(arguments.flags, ray)))
    store_i64(walk + RAY_MASK, np.int64(per_ray(arguments.mask, ray)))
    store_i64(walk + ANY_HIT, np.int64(per_ray(arguments.any_hit, ray)))
    store_i64(walk + INTERSECTION, np.int64(per_ray(arguments.intersection, ray)))
    store_i64(walk + RAY_CONTRIBUTION, np.int64(per_ray(arguments.contribution, ray)) & 0xF)
    store_i64(walk + MULTIPLIER, np.int64(per_ray(arguments.multiplier, ray)) & 0xF)
    store_i64(walk + FAULT, np.int64(0))
    store_i64(walk + QUERY_NEXT, np.int64(0))
    store_i64(walk + HIT_INSTANCE, np.int64(-1))
    store_i64(walk + HIT_GEOMETRY, np.int64(-1))
    store_i64(walk + HIT_PRIMITIVE, np.int64(-1))
    store_i64(walk + HIT_KIND, np.int64(-1))
    store_i64(walk + ENDED, np.int64(0))
    store_f32(walk + T_CURRENT, rays.t_max[ray])
    store_f32(walk + ATTRIBUTE_0, np.float32(0.0))
    store_f32(walk + ATTRIBUTE_1, np.float32(0.0))


@jit
def push_root(walk, size):
    at = walk + STACK + size * ENTRY_SIZE
    store_i32(at + ENTRY_REF, np.int32(0))
    store_f32(at + ENTRY_T, load_f32(walk + T_MIN))
    store_f32(at + ENTRY_EXIT, load_f32(walk + T_MAX))
    store_i64(at + ENTRY_PLACE, np.int64(-1))
    return size + 1


@jit
def walk_top(world, walk, counters, log):
    """The top level: nodes, then each instance that a leaf names."""
    ray = walk + ORIGIN
    reach = max(abs(load_f32(ray)), max(abs(load_f32(ray + 4)), abs(load_f32(ray + 8))))
    condition = load_f32(world + WORLD_CONDITION)
    # The object ray is off by some roundings of world coordinates, times what the transforms make of them.
    set_slab(walk + SLAB_TOP, ray, (load_f32(world + WORLD_REACH) + reach) * condition)
    nodes, leaves = load_i64(world + WORLD_NODES), load_i64(world + WORLD_LEAVES)
    size = push_root(walk, 0)
    while size > 0 and load_i64(walk + ENDED) == 0:
        size -= 1
        at = walk + STACK + size * ENTRY_SIZE
        if load_f32(at + ENTRY_T) > load_f32(walk + T_CURRENT) * WIDEN:
            log_node(log, EVENT_NODE_SKIPPED, VERDICT_BOX_BEYOND_CURRENT_END, 0, -1, walk, size)
            continue
        log_node(log, EVENT_NODE_ENTERED, VERDICT_NONE, 0, -1, walk, size)
        ref = np.int64(load_i32(at + ENTRY_REF))
        if ref >= 0:
            count(counters, COUNT_TLAS_NODES_VISITED, 1)
            size = push_children(nodes, ref, walk + SLAB_TOP, walk, size, counters, log, 0, -1)
            continue
        place = load_i64(at + ENTRY_PLACE)
        entry, leave = load_f32(at + ENTRY_T), load_f32(at + ENTRY_EXIT)
        for leaf in range(~ref >> 2, (~ref >> 2) + (~ref & 3) + 1):
            enter_instance(world, leaves + leaf * INSTANCE_LEAF_SIZE, walk, size, place, entry, leave, counters, log)
            if load_i64(walk + ENDED) != 0:
                break


@jit
def push_children(nodes, node, slab, walk, size, counters, log, level, instance):
    """Test the children of a node and stack those the ray meets, farthest first; returns the stack's new size."""
    address = nodes + node * NODE_SIZE
    interval = walk + INTERVAL
    mask = boxes(address, slab, load_f32(walk + T_MIN), load_f32(walk + T_CURRENT) * WIDEN, interval)
    if counters is not None or log is not None:
        report_boxes(mask, node, walk, size, counters, log, level, instance)
    met = mask & np.uint32(0xFF)
    bottom = walk + STACK + size * ENTRY_SIZE
    top = bottom
    while met != 0:
        lane = lowest_bit(met)
        met &= met - np.uint32(1)
        entry = load_f32(interval + 4 * lane)
        slot = top
        while slot > bottom and load_f32(slot - ENTRY_SIZE + ENTRY_T) < entry:
            for word in range(0, ENTRY_SIZE, 8):
                store_i64(slot + word, load_i64(slot - ENTRY_SIZE + word))
            slot -= ENTRY_SIZE
        store_i32(slot + ENTRY_REF, load_i32(address + 192 + 4 * lane))
        store_f32(slot + ENTRY_T, entry)
        store_f32(slot + ENTRY_EXIT, load_f32(interval + 32 + 4 * lane))
        store_i64(slot + ENTRY_PLACE, node * 8 + lane)
        top += ENTRY_SIZE
    size += (top - bottom) // ENTRY_SIZE
    count_most(counters, COUNT_STACK_HIGH_WATER, size)
    return size


@jit
def report_boxes(mask, node, walk, size, counters, log, level, instance):
    """Count the box tests of a node and log the boxes that were not met."""
    for lane in range(8):
        if mask >> (8 + lane) & 1 == 0:
            continue
        count(counters, COUNT_BOX_TESTS, 1)
        if mask >> lane & 1:
            count(counters, COUNT_BOX_HITS, 1)
        elif log is not None:
            entry = load_f32(walk + INTERVAL + 4 * lane)
            leave = load_f32(walk + INTERVAL + 32 + 4 * lane)
            verdict = VERDICT_BOX_MISSED if entry > leave * WIDEN else VERDICT_BOX_BEYOND_CURRENT_END
            add_event(
                log, EVENT_NODE_SKIPPED, level, verdict, 0, instance, node, lane, -1, -1, size,
                entry, leave, load_f32(walk + T_CURRENT), 0.0, 0.0, 0.0,
            )  # fmt: skip


@jit
def node_of(place):
    return place >> 3 if place >= 0 else -1


@jit
def lane_of(place):
    return place & 7 if place >= 0 else -1


@jit
def log_node(log, kind, verdict, level, instance, walk, slot):
    """The event of a stack entry that was taken off."""
    if log is not None:
        at = walk + STACK + slot * ENTRY_SIZE
        place = load_i64(at + ENTRY_PLACE)
        add_event(
            log, kind, level, verdict, 0, instance, node_of(place), lane_of(place), -1, -1, slot,
            load_f32(at + ENTRY_T), load_f32(at + ENTRY_EXIT), load_f32(walk + T_CURRENT), 0.0, 0.0, 0.0,
        )  # fmt: skip


@jit
def instance_verdict(world, row, instance, desc, leaf, walk):
    """Steps 1 to 4 of CULL-5 for a whole instance, and what else keeps a ray out; sets the opacities of the walk."""
    ray_flags = load_i64(walk + RAY_FLAGS)
    if row < 0:
        return VERDICT_INACTIVE_INSTANCE
    if is_mask_excluded(load_i64(walk + RAY_MASK), np.int64(load_u32(desc + 48) >> np.uint32(24))):
        return VERDICT_MASK_EXCLUDED
    blas = load_i64(world + WORLD_BLASES) + row * BLAS_ROW_SIZE
    if load_i64(blas + BLAS_NODE_COUNT) == 0:
        return VERDICT_EMPTY_STRUCTURE
    triangles = load_i64(blas + BLAS_IS_TRIANGLES) != 0
    if is_type_skipped(triangles, ray_flags):
        return VERDICT_TRIANGLES_SKIPPED if triangles else VERDICT_PROCEDURALS_SKIPPED
    flags = np.int64(load_u32(desc + 52) >> np.uint32(24))
    of_opaque = effective_opacity(True, flags, ray_flags)
    of_non_opaque = effective_opacity(False, flags, ray_flags)
    has_opaque = load_i64(blas + BLAS_HAS_OPAQUE) != 0
    has_non_opaque = load_i64(blas + BLAS_HAS_NON_OPAQUE) != 0
    opaque_is_out = not has_opaque or of_opaque >= OPACITY_CULLED_OPAQUE
    non_opaque_is_out = not has_non_opaque or of_non_opaque >= OPACITY_CULLED_OPAQUE
    if opaque_is_out and non_opaque_is_out:
        opacity = of_opaque if has_opaque else of_non_opaque
        return VERDICT_CULLED_NON_OPAQUE if opacity == OPACITY_CULLED_NON_OPAQUE else VERDICT_CULLED_OPAQUE
    if load_u32(leaf + 52) & INSTANCE_SINGULAR:
        return VERDICT_SINGULAR_TRANSFORM
    store_i64(walk + INSTANCE, instance)
    store_i64(walk + INSTANCE_FLAGS, flags)
    store_i64(walk + INSTANCE_CONTRIBUTION, np.int64(load_u32(desc + 52) & np.uint32(0xFFFFFF)))
    store_i64(walk + OPACITY_OF_OPAQUE, np.int64(of_opaque))
    store_i64(walk + OPACITY_OF_NON_OPAQUE, np.int64(of_non_opaque))
    return VERDICT_NONE


@jit
def to_object(matrix, walk):
    """INST-8 and INST-9: the ray in object space, in float32, each operation rounded; t keeps its meaning."""
    ox, oy, oz = load_f32(walk + ORIGIN), load_f32(walk + ORIGIN + 4), load_f32(walk + ORIGIN + 8)
    dx, dy, dz = load_f32(walk + DIRECTION), load_f32(walk + DIRECTION + 4), load_f32(walk + DIRECTION + 8)
    for axis in range(3):
        m0, m1 = load_f32(matrix + 16 * axis), load_f32(matrix + 16 * axis + 4)
        m2, m3 = load_f32(matrix + 16 * axis + 8), load_f32(matrix + 16 * axis + 12)
        store_f32(walk + OBJECT_ORIGIN + 4 * axis, ((m0 * ox + m1 * oy) + m2 * oz) + m3)
        store_f32(walk + OBJECT_DIRECTION + 4 * axis, (m0 * dx + m1 * dy) + m2 * dz)


@jit
def is_object_ray_finite(walk):
    for word in range(0, 24, 4):
        if not (abs(load_f32(walk + OBJECT_ORIGIN + word)) < np.float32(np.inf)):
            return False
    return True


@jit
def enter_instance(world, leaf, walk, size, place, entry, leave, counters, log):
    """One instance: filters, then the walk of its bottom level on the stack above ``size``."""
    instance = np.int64(load_i32(leaf + 48))
    row = np.int64(load_i32(load_i64(world + WORLD_INSTANCE_BLAS) + 4 * instance))
    desc = load_i64(world + WORLD_DESCS) + instance * INSTANCE_DESC_SIZE
    verdict = instance_verdict(world, row, instance, desc, leaf, walk)
    if verdict == VERDICT_NONE:
        to_object(leaf, walk)
        if not is_object_ray_finite(walk):
            verdict = VERDICT_OBJECT_RAY_NOT_FINITE
    if log is not None:
        kind = EVENT_INSTANCE_ENTERED if verdict == VERDICT_NONE else EVENT_INSTANCE_SKIPPED
        add_event(
            log, kind, 0, verdict, 0, instance, node_of(place), lane_of(place), -1, -1, size,
            entry, leave, load_f32(walk + T_CURRENT), 0.0, 0.0, 0.0,
        )  # fmt: skip
    if verdict != VERDICT_NONE:
        count(counters, COUNT_INSTANCES_REJECTED, 1)
        return
    count(counters, COUNT_INSTANCES_ENTERED, 1)
    walk_bottom(load_i64(world + WORLD_BLASES) + row * BLAS_ROW_SIZE, walk, size, counters, log)


@jit
def walk_bottom(blas, walk, base, counters, log):
    """The bottom level of one instance, in its object space."""
    walk_below(blas, walk, base, push_root(walk, base), counters, log)


@jit
def stack_reference(walk, place, ref, entry):
    """Put a reference of a bottom level on the stack, for ``walk_stacked``."""
    at = walk + STACK + place * ENTRY_SIZE
    store_i32(at + ENTRY_REF, np.int32(ref))
    store_f32(at + ENTRY_T, entry)


@jit
def walk_stacked(blas, walk, size):
    """A bottom level from what ``stack_reference`` has put on the stack on, without counters and log."""
    walk_below(blas, walk, 0, size, None, None)


@jit
def walk_below(blas, walk, base, size, counters, log):
    """What is on the stack above ``base``."""
    reach = load_f32(blas + BLAS_REACH)
    set_slab(walk + SLAB_BOTTOM, walk + OBJECT_ORIGIN, reach)
    kz = set_shear(walk + SHEAR, walk + OBJECT_ORIGIN, reach)
    triangles = load_i64(blas + BLAS_IS_TRIANGLES) != 0
    nodes, leaves = load_i64(blas + BLAS_NODES), load_i64(blas + BLAS_LEAVES)
    geometries, geometry_count = load_i64(blas + BLAS_GEOMETRIES), load_i64(blas + BLAS_GEOMETRY_COUNT)
    indices, vertices = load_i64(blas + BLAS_INDICES), load_i64(blas + BLAS_VERTICES)
    instance = load_i64(walk + INSTANCE)
    while size > base and load_i64(walk + ENDED) == 0:
        size -= 1
        at = walk + STACK + size * ENTRY_SIZE
        if load_f32(at + ENTRY_T) > load_f32(walk + T_CURRENT) * WIDEN:
            log_node(log, EVENT_NODE_SKIPPED, VERDICT_BOX_BEYOND_CURRENT_END, 1, instance, walk, size)
            continue
        log_node(log, EVENT_NODE_ENTERED, VERDICT_NONE, 1, instance, walk, size)
        ref = np.int64(load_i32(at + ENTRY_REF))
        if ref >= 0:
            count(counters, COUNT_BLAS_NODES_VISITED, 1)
            size = push_children(nodes, ref, walk + SLAB_BOTTOM, walk, size, counters, log, 1, instance)
            continue
        first, last = ~ref >> 2, (~ref >> 2) + (~ref & 3) + 1
        place = load_i64(at + ENTRY_PLACE)
        if triangles:
            test_triangle_leaf(
                leaves, first, last, indices, vertices, geometries, geometry_count, kz, walk, place, size, counters, log
            )
        else:
            test_box_leaf(leaves, first, last, geometries, geometry_count, walk, place, size, counters, log)
