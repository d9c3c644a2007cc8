"""The walk of one ray through a two-level structure, with counters and, where it is wanted, a log.

``counters`` and ``log`` are addresses, that of the log 0 where only counters are wanted. What neither counts nor logs
is traced by ``stream``, which meets the same nodes and leaves in the same order and leaves out what would only be
counted or logged.

Enumeration (TRAV-1, TRAV-7): depth first, children in the order that their node keeps for the ray's octant, or as
stored where the first hit ends the search. Boxes are cut off only when they begin beyond the current end, so that
candidates tying with the committed hit are still offered and DET-5 can choose.

``walk`` is the address of the ray's block, laid out in ``state``; ``size`` counts stack entries, those of the top level
below those of the bottom level.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import inline_jit, jit
from rtviewer.kernels.batch import are_arguments_alike, begin_ray, finish_ray, set_arguments
from rtviewer.kernels.constants import (
    COUNT_BLAS_NODES_VISITED,
    COUNT_BOX_HITS,
    COUNT_BOX_TESTS,
    COUNT_INSTANCES_ENTERED,
    COUNT_INSTANCES_REJECTED,
    COUNT_STACK_HIGH_WATER,
    COUNT_TLAS_NODES_VISITED,
    COUNTERS,
    EVENT_INSTANCE_ENTERED,
    EVENT_INSTANCE_SKIPPED,
    EVENT_NODE_ENTERED,
    EVENT_NODE_SKIPPED,
    INSTANCE_DESC_SIZE,
    INSTANCE_LEAF_SIZE,
    INSTANCE_SINGULAR,
    NODE_CHILD,
    NODE_ORDER,
    NODE_SIZE,
    OPACITY_CULLED_NON_OPAQUE,
    OPACITY_CULLED_OPAQUE,
    RAY_ACCEPT_FIRST_HIT,
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
from rtviewer.kernels.events import INSTANCE_REASON_OF, add_event, count, count_most, count_reason
from rtviewer.kernels.extremes import largest
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, load_u32, store_f32, store_i32, store_i64
from rtviewer.kernels.parts import call_walk_level
from rtviewer.kernels.procedurals import test_box_leaf
from rtviewer.kernels.ray_box import WIDEN
from rtviewer.kernels.ray_setup import is_object_ray_finite, is_usual, octant_of, set_shear, set_slab, to_object
from rtviewer.kernels.state import (
    BATCH_LOG_END,
    BLAS,
    BLAS_GEOMETRIES,
    BLAS_GEOMETRY_COUNT,
    BLAS_HAS_NON_OPAQUE,
    BLAS_HAS_OPAQUE,
    BLAS_IS_TRIANGLES,
    BLAS_LEAVES,
    BLAS_NODE_COUNT,
    BLAS_NODES,
    BLAS_REACH,
    BLAS_ROW_SIZE,
    ENDED,
    INSTANCE,
    INSTANCE_CONTRIBUTION,
    INSTANCE_FLAGS,
    INTERVAL,
    KZ,
    LOG_COUNT,
    OBJECT_ORIGIN,
    OCTANT,
    OPACITY_KEY,
    OPACITY_OF_NON_OPAQUE,
    OPACITY_OF_OPAQUE,
    ORIGIN,
    RAY_FLAGS,
    RAY_MASK,
    SHEAR,
    SLAB_BOTTOM,
    SLAB_TOP,
    STACK_ENTRIES,
    STACK_EXITS,
    STACK_PLACES,
    STACK_REFERENCES,
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
    WORLD_WALK_LEAVES,
)
from rtviewer.kernels.triangles import test_triangle_leaf
from rtviewer.kernels.vector import boxes
from rtviewer.kernels.vector_portable import NONE, UNORDERED

TOP, BOTTOM = np.int64(0), np.int64(1)
"""Levels, as events name them."""
NOBODY = np.int64(-1)
"""No instance."""


@jit
def trace_rays(world, batch, counters, log, walk, first, last):
    """Trace rays ``first`` to ``last - 1``.

    ``world``, ``batch``, ``walk``: addresses of blocks laid out in ``state``. ``counters``: address of (n, COUNTERS)
    int32, zeroed. ``log``: address of a log, 0 for none.
    """
    store_i64(walk + WORLD, world)
    store_i32(walk + OPACITY_KEY, np.int32(-1))
    alike = are_arguments_alike(batch)
    if alike and last > first:
        set_arguments(walk, batch, first)
    not_empty = load_i64(world + WORLD_NODE_COUNT) > 0
    for ray in range(first, last):
        if not alike:
            set_arguments(walk, batch, ray)
        if begin_ray(walk, batch, ray) and not_empty:
            walk_top(world, walk, counters + ray * (4 * COUNTERS), log)
        finish_ray(walk, batch, ray)
        if log != 0:
            store_i64(load_i64(batch + BATCH_LOG_END) + 8 * ray, load_i64(log + LOG_COUNT))


@inline_jit
def order_of(walk, ray):
    """The octant whose order of children a ray takes; any order will do where the first hit ends the search."""
    return ordered(walk, octant_of(walk + ray))


@inline_jit
def ordered(walk, octant):
    """The same, from the octant."""
    if load_i64(walk + RAY_FLAGS) & RAY_ACCEPT_FIRST_HIT:
        return np.int64(UNORDERED)
    return octant


@inline_jit
def push_root(walk, size):
    """Stack the root of a level; returns the stack's new size."""
    store_i32(load_i64(walk + STACK_REFERENCES) + 4 * size, np.int32(0))
    store_f32(load_i64(walk + STACK_ENTRIES) + 4 * size, load_f32(walk + T_MIN))
    store_f32(load_i64(walk + STACK_EXITS) + 4 * size, load_f32(walk + T_MAX))
    store_i64(load_i64(walk + STACK_PLACES) + 8 * size, np.int64(-1))
    return size + 1


@inline_jit
def take_next(walk, base, size, level, instance, log):
    """Take entries off the stack until one begins within the current end: (its reference or NONE, new size)."""
    references, entries = load_i64(walk + STACK_REFERENCES), load_i64(walk + STACK_ENTRIES)
    limit = load_f32(walk + T_CURRENT) * WIDEN
    while size > base:
        size -= 1
        if load_f32(entries + 4 * size) > limit:
            log_node(log, EVENT_NODE_SKIPPED, VERDICT_BOX_BEYOND_CURRENT_END, level, instance, walk, size)
            continue
        log_node(log, EVENT_NODE_ENTERED, VERDICT_NONE, level, instance, walk, size)
        return np.int64(load_i32(references + 4 * size)), size
    return np.int64(NONE), size


@inline_jit
def walk_top(world, walk, counters, log):
    """The top level: nodes, then each instance that a leaf names."""
    set_top(world, walk)
    octant = order_of(walk, ORIGIN)
    nodes, leaves = load_i64(world + WORLD_NODES), load_i64(world + WORLD_LEAVES)
    ref, size = take_next(walk, np.int64(0), push_root(walk, np.int64(0)), TOP, NOBODY, log)
    while ref != NONE:
        if ref >= 0:
            size = visit_node(nodes, ref, walk + SLAB_TOP, octant, walk, size, counters, log, TOP, NOBODY)
        else:
            place, entry, leave = slot_of(walk, size, log)
            for leaf in range(~ref >> 2, (~ref >> 2) + (~ref & 3) + 1):
                address = leaves + leaf * INSTANCE_LEAF_SIZE
                enter_instance(world, address, walk, size, place, entry, leave, counters, log)
                if load_i64(walk + ENDED) != 0:
                    return
        ref, size = take_next(walk, np.int64(0), size, TOP, NOBODY, log)


@jit
def set_top(world, walk):
    """What a walk of the top level needs of the ray."""
    ray = walk + ORIGIN
    reach = largest(abs(load_f32(ray)), largest(abs(load_f32(ray + 4)), abs(load_f32(ray + 8))))
    # The object ray is off by some roundings of world coordinates, times what the transforms make of them.
    reach = (load_f32(world + WORLD_REACH) + reach) * load_f32(world + WORLD_CONDITION)
    set_slab(walk + SLAB_TOP, ray, reach, is_usual(ray, reach))


@inline_jit
def visit_node(nodes, node, slab, octant, walk, size, counters, log, level, instance):
    """Test the children of a node and stack those the ray meets, farthest first; the stack's new size."""
    address = nodes + node * NODE_SIZE
    end = load_f32(walk + T_CURRENT) * WIDEN
    count(counters, COUNT_BLAS_NODES_VISITED if level == BOTTOM else COUNT_TLAS_NODES_VISITED, 1)
    mask = boxes(address, slab, load_f32(walk + T_MIN), end, walk + INTERVAL)
    report_boxes(mask, node, walk, size, counters, log, level, instance)
    for rank in range(8):
        lane = np.int64(rank)
        if octant != UNORDERED:
            lane = np.int64(load_u32(address + NODE_ORDER + 4 * rank) >> np.uint32(3 * octant)) & 7
        if mask >> lane & 1:
            push_child(address, node, lane, walk, size)
            size += 1
    count_most(counters, COUNT_STACK_HIGH_WATER, size)
    return size


@jit
def push_child(address, node, lane, walk, size):
    """Stack a child with all that is known of it."""
    store_i32(load_i64(walk + STACK_REFERENCES) + 4 * size, load_i32(address + NODE_CHILD + 4 * lane))
    store_f32(load_i64(walk + STACK_ENTRIES) + 4 * size, load_f32(walk + INTERVAL + 4 * lane))
    store_f32(load_i64(walk + STACK_EXITS) + 4 * size, load_f32(walk + INTERVAL + 32 + 4 * lane))
    store_i64(load_i64(walk + STACK_PLACES) + 8 * size, node * 8 + lane)


@jit
def report_boxes(mask, node, walk, size, counters, log, level, instance):
    """Count the box tests of a node and log the boxes that were not met."""
    for lane in range(8):
        if mask >> (8 + lane) & 1 == 0:
            continue
        count(counters, COUNT_BOX_TESTS, 1)
        if mask >> lane & 1:
            count(counters, COUNT_BOX_HITS, 1)
        elif log != 0:
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
def slot_of(walk, slot, log):
    """(place, entry, exit) of a stack entry, for a log."""
    if log == 0:
        return np.int64(-1), np.float32(0.0), np.float32(0.0)
    place = load_i64(load_i64(walk + STACK_PLACES) + 8 * slot)
    entry = load_f32(load_i64(walk + STACK_ENTRIES) + 4 * slot)
    return place, entry, load_f32(load_i64(walk + STACK_EXITS) + 4 * slot)


@jit
def log_node(log, kind, verdict, level, instance, walk, slot):
    """The event of a stack entry that was taken off."""
    if log != 0:
        place, entry, leave = slot_of(walk, slot, log)
        add_event(
            log, kind, level, verdict, 0, instance, node_of(place), lane_of(place), -1, -1, slot,
            entry, leave, load_f32(walk + T_CURRENT), 0.0, 0.0, 0.0,
        )  # fmt: skip


@jit
def instance_verdict(world, leaf, walk):
    """Steps 1 to 4 of CULL-5 for a whole instance, and what else keeps a ray out; sets what the walk has to know of the
    instance, if it is let in."""
    instance = np.int64(load_i32(leaf + 48))
    row = np.int64(load_i32(load_i64(world + WORLD_INSTANCE_BLAS) + 4 * instance))
    desc = load_i64(world + WORLD_DESCS) + instance * INSTANCE_DESC_SIZE
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
    set_opacities(flags, ray_flags, walk)
    of_opaque, of_non_opaque = load_i64(walk + OPACITY_OF_OPAQUE), load_i64(walk + OPACITY_OF_NON_OPAQUE)
    has_opaque = load_i64(blas + BLAS_HAS_OPAQUE) != 0
    has_non_opaque = load_i64(blas + BLAS_HAS_NON_OPAQUE) != 0
    opaque_is_out = not has_opaque or of_opaque >= OPACITY_CULLED_OPAQUE
    non_opaque_is_out = not has_non_opaque or of_non_opaque >= OPACITY_CULLED_OPAQUE
    if opaque_is_out and non_opaque_is_out:
        opacity = of_opaque if has_opaque else of_non_opaque
        return VERDICT_CULLED_NON_OPAQUE if opacity == OPACITY_CULLED_NON_OPAQUE else VERDICT_CULLED_OPAQUE
    if load_u32(leaf + 52) & INSTANCE_SINGULAR:
        return VERDICT_SINGULAR_TRANSFORM
    store_i64(walk + BLAS, blas)
    store_i64(walk + INSTANCE, instance)
    store_i64(walk + INSTANCE_FLAGS, flags)
    store_i64(walk + INSTANCE_CONTRIBUTION, np.int64(load_u32(desc + 52) & np.uint32(0xFFFFFF)))
    return VERDICT_NONE


@inline_jit
def set_opacities(flags, ray_flags, walk):
    """What opaque and other geometry counts as in an instance with these flags; most follow one with the same."""
    key = np.int32(ray_flags << 8 | flags)
    if load_i32(walk + OPACITY_KEY) != key:
        store_i32(walk + OPACITY_KEY, key)
        store_i64(walk + OPACITY_OF_OPAQUE, np.int64(effective_opacity(True, flags, ray_flags)))
        store_i64(walk + OPACITY_OF_NON_OPAQUE, np.int64(effective_opacity(False, flags, ray_flags)))


@inline_jit
def enter_instance(world, leaf, walk, size, place, entry, leave, counters, log):
    """One instance: filters, then the walk of its bottom level on the stack from ``size`` on."""
    verdict, blas, usual = instance_verdict(world, leaf, walk), np.int64(0), False
    if verdict == VERDICT_NONE:
        blas = load_i64(walk + BLAS)
        to_object(leaf, walk)
        usual = is_usual(walk + OBJECT_ORIGIN, load_f32(blas + BLAS_REACH))
        if not usual and not is_object_ray_finite(walk):
            verdict = VERDICT_OBJECT_RAY_NOT_FINITE
    if log != 0:
        kind = EVENT_INSTANCE_ENTERED if verdict == VERDICT_NONE else EVENT_INSTANCE_SKIPPED
        add_event(
            log, kind, 0, verdict, 0, np.int64(load_i32(leaf + 48)), node_of(place), lane_of(place), -1, -1, size,
            entry, leave, load_f32(walk + T_CURRENT), 0.0, 0.0, 0.0,
        )  # fmt: skip
    if verdict != VERDICT_NONE:
        count(counters, COUNT_INSTANCES_REJECTED, 1)
        count_reason(counters, INSTANCE_REASON_OF, verdict)
        return
    count(counters, COUNT_INSTANCES_ENTERED, 1)
    walk_bottom(blas, usual, walk, size, counters, log)


@inline_jit
def walk_bottom(blas, usual, walk, base, counters, log):
    """The bottom level of one instance, in its object space. ``base``: the top level's entries on the stack."""
    set_bottom(blas, usual, walk)
    world = load_i64(walk + WORLD)
    part = load_i64(world + WORLD_WALK_LEAVES)
    call_walk_level(part, blas, walk, np.int64(base), np.int64(counters), np.int64(log))


@inline_jit
def set_bottom(blas, usual, walk):
    """What a walk of a bottom level needs of the ray in object space."""
    reach = load_f32(blas + BLAS_REACH)
    set_slab(walk + SLAB_BOTTOM, walk + OBJECT_ORIGIN, reach, usual)
    if load_i64(blas + BLAS_IS_TRIANGLES) != 0:
        store_i64(walk + KZ, set_shear(walk + SHEAR, walk + OBJECT_ORIGIN, reach))
    store_i64(walk + OCTANT, order_of(walk, OBJECT_ORIGIN))


@jit
def walk_leaves(blas, walk, base, counters, log):
    """Node by node and leaf by leaf, everything counted and logged."""
    nodes, leaves = load_i64(blas + BLAS_NODES), load_i64(blas + BLAS_LEAVES)
    geometries, geometry_count = load_i64(blas + BLAS_GEOMETRIES), load_i64(blas + BLAS_GEOMETRY_COUNT)
    triangles, octant = load_i64(blas + BLAS_IS_TRIANGLES) != 0, load_i64(walk + OCTANT)
    instance = load_i64(walk + INSTANCE)
    ref, size = take_next(walk, base, push_root(walk, base), BOTTOM, instance, log)
    while ref != NONE:
        if ref >= 0:
            size = visit_node(nodes, ref, walk + SLAB_BOTTOM, octant, walk, size, counters, log, BOTTOM, instance)
        else:
            first, last = ~ref >> 2, (~ref >> 2) + (~ref & 3) + 1
            if triangles:
                test_triangle_leaf(leaves, first, last, geometries, geometry_count, walk, size, counters, log)
            else:
                test_box_leaf(leaves, first, last, geometries, geometry_count, walk, size, False, counters, log)
            if load_i64(walk + ENDED) != 0:
                return
        ref, size = take_next(walk, base, size, BOTTOM, instance, log)
