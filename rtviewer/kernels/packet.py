"""The walk of 16 rays at once: hits to the bit those of ``traverse``, where only opaque triangles decide.

``trace.packets`` says when it may be used. Rays walk together as long as their directions have the same signs (and, in
a bottom level, the same longest axis); a packet is cut into such groups, and what is left over walks alone, side by
side (``stream``), as does everything that a packet cannot do: procedural boxes, huge coordinates.
Since no any-hit program runs, a hit depends on the candidates only and not on their order (DET-5).
"""

from __future__ import annotations

import numba
import numpy as np

from rtviewer.kernels import jit, state
from rtviewer.kernels import packet_state as at
from rtviewer.kernels.candidates import find_geometry, first_of_geometry
from rtviewer.kernels.constants import (
    INDEXED_PACK_SIZE,
    INSTANCE_LEAF_SIZE,
    NODE_SIZE,
    OPACITY_CULLED_OPAQUE,
    OPACITY_NON_OPAQUE,
    TRIANGLE_PACK_SIZE,
)
from rtviewer.kernels.culling import hit_kind, is_facing_culled
from rtviewer.kernels.extremes import largest, least
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, store_f32, store_i32, store_i64
from rtviewer.kernels.packet_results import hit_lanes, write_columns, write_hit_or_miss
from rtviewer.kernels.packet_triangles import test_leaf
from rtviewer.kernels.packet_vector import (
    begin_part,
    count_lanes,
    lowest_lane,
    same_class,
    set_group,
    set_part_shear,
    set_space,
    shorten,
    still_active,
    take_columns,
    transform_part,
    visit_children,
)
from rtviewer.kernels.parts import call_walk_level
from rtviewer.kernels.stream import is_open, prepare_slot
from rtviewer.kernels.triangles import fill_pack
from rtviewer.kernels.vector import lowest_bit
from rtviewer.kernels.vector_portable import HUGE

AVAILABLE = not numba.config.DISABLE_JIT
"""Vector code has no twin here: without the JIT there are no packets."""
ONE, NONE = np.uint64(1), np.uint64(0)
FEW = 18
"""So many rays of a group, or fewer, are faster alone: from the root of a level on."""
FEW_LEFT, FEW_AT_LEAF = 4, 2
"""So many that are left at a node, or at a leaf."""
FEW_LEFT_HIT_ONLY, FEW_AT_LEAF_HIT_ONLY = 8, 4
"""The same where only hit or miss is asked: alone a ray ends with its first hit, whatever the others do."""
DEAD = np.float32(-np.inf)
RAYS = at.LANES * at.PARTS


@jit
def trace_packets(request, first, last):
    """Trace rays ``first`` (a multiple of 16) to ``last - 1`` of a request (``packet_state``) and write their columns.

    The walk of one ray at REQUEST_WALK holds the flags, mask and programs that are the same for all.
    """
    world, packet, walk = (
        load_i64(request + at.REQUEST_WORLD),
        load_i64(request + at.REQUEST_PACKET),
        load_i64(request + at.REQUEST_WALK),
    )
    entries = packet + (at.PACKET_REFS + 4 * load_i64(request + at.REQUEST_STACK) + 63) // 64 * 64
    store_i64(walk + state.WORLD, world)
    stream = load_i64(request + at.REQUEST_STREAM)
    store_i64(packet + at.STREAM, stream)
    for number in range(load_i64(stream + state.STREAM_COUNT)):
        prepare_slot(world, stream, number)
    for lane in range(RAYS):
        store_i32(packet + at.ASIDE + 4 * lane, np.int32(0))
    store_i32(packet + at.HIT_ONLY, np.int32(load_i64(request + at.REQUEST_HIT_ONLY)))
    store_i64(packet + at.WALK, walk)
    store_i64(packet + at.ASK, load_i64(world + state.WORLD_ASK_GROUP))
    store_i64(packet + at.IN_DOUBT, np.int64(0))
    for ray in range(first, last, RAYS):
        traced, invalid = NONE, NONE
        for part in range(at.PARTS):
            own, count = packet + at.PART_SIZE * part, least(largest(last - ray - at.LANES * part, 0), at.LANES)
            bits = np.uint64(load_rays(request, own, ray + at.LANES * part, count))
            traced |= (bits & np.uint64(0xFFFF)) << np.uint64(16 * part)
            invalid |= (bits >> np.uint64(16)) << np.uint64(16 * part)
        if traced != NONE and load_i64(world + state.WORLD_NODE_COUNT) > 0:
            walk_world(world, packet, walk, entries, traced)
            walk_again(packet, walk)
        for part in range(at.PARTS):
            if ray + at.LANES * part < last:
                wrong = np.uint32((invalid >> np.uint64(16 * part)) & np.uint64(0xFFFF))
                report(request, packet, packet + at.PART_SIZE * part, ray + at.LANES * part, wrong, world)


@jit
def load_rays(request, packet, ray, count):
    """Sixteen rays, or the fewer that are left, as columns of a part; what ``begin_part`` returns."""
    origin, direction = load_i64(request) + 12 * ray, load_i64(request + at.REQUEST_DIRECTION) + 12 * ray
    t_min, t_max = load_i64(request + at.REQUEST_T_MIN) + 4 * ray, load_i64(request + at.REQUEST_T_MAX) + 4 * ray
    if count < at.LANES:
        room = packet + at.PACKET_RAYS
        for number in range(count):
            for word in range(0, 12, 4):
                store_f32(room + 12 * number + word, load_f32(origin + 12 * number + word))
                store_f32(room + 192 + 12 * number + word, load_f32(direction + 12 * number + word))
            store_f32(room + 384 + 4 * number, load_f32(t_min + 4 * number))
            store_f32(room + 448 + 4 * number, load_f32(t_max + 4 * number))
        origin, direction, t_min, t_max = room, room + 192, room + 384, room + 448
    take_columns(origin, packet + at.SPACE_ORIGIN)
    take_columns(direction, packet + at.SPACE_DIRECTION)
    return begin_part(packet, t_min, t_max, (np.uint32(1) << np.uint32(count)) - np.uint32(1))


@jit
def walk_world(world, packet, walk, entries, traced):
    """All rays of a packet through the top level, group by group."""
    only = load_i64(world + state.WORLD_ONLY_LEAF)
    if only != 0:
        enter_together(world, only, packet, walk, entries, np.int64(0), traced)
        return
    reach, condition = load_f32(world + state.WORLD_REACH), load_f32(world + state.WORLD_CONDITION)
    for part in range(at.PARTS):
        set_space(packet + at.PART_SIZE * part, reach, np.float32(1.0), condition)
    while traced != NONE:
        kind = class_of(packet, lowest_lane(traced)) & at.CLASS_TOP
        group = same_class(packet, kind, at.CLASS_TOP) & traced
        traced &= ~group
        if count_lanes(group) <= FEW:
            go_alone(packet, walk, group, np.int64(0), np.int64(0))
        else:
            set_group(packet, packet, packet + at.BOUNDS_WORLD, kind, group)
            walk_top(world, packet, walk, entries, kind, group)


@jit
def walk_again(packet, walk):
    """Rays for which the order of candidates matters, anew and alone."""
    doubtful = np.uint64(load_i64(packet + at.IN_DOUBT))
    if doubtful == NONE:
        return
    lanes = doubtful
    while lanes != NONE:
        lane = lowest_lane(lanes)
        lanes &= lanes - ONE
        own = packet + at.PART_SIZE * (lane >> 4) + 4 * (lane & 15)
        store_f32(own + at.PACKET_END, load_f32(own + at.PACKET_T_MAX))
        store_i32(own + at.PACKET_INSTANCE, np.int32(-1))
    go_alone(packet, walk, doubtful, np.int64(0), np.int64(0))
    store_i64(packet + at.IN_DOUBT, np.int64(0))


@jit
def class_of(space, lane):
    return np.int64(load_i32(space + at.PART_SIZE * (lane >> 4) + at.SPACE_CLASS + 4 * (lane & 15)))


@jit
def next_entry(packet, entries, size):
    """Take entries off the stack until one is met by rays: (the stack's size, their bits, 0 when none is left)."""
    active = NONE
    while size > 0 and active == NONE:
        size -= 1
        active = still_active(packet, entries + at.ENTRY_VECTORS * size)
    return size, active


@jit
def walk_top(world, packet, walk, entries, octant, group):
    """A group of rays through the top level: nodes, then each instance that a leaf names."""
    nodes, leaves = load_i64(world + state.WORLD_NODES), load_i64(world + state.WORLD_LEAVES)
    bounds = packet + at.BOUNDS_WORLD
    size, ref, active = np.int64(0), np.int64(0), group
    while active != NONE:
        if ref >= 0:
            size, active = visit_children(
                nodes + ref * NODE_SIZE, packet, packet, bounds, octant, active, entries, size, packet + at.PACKET_REFS
            )
        else:
            for leaf in range(~ref >> 2, (~ref >> 2) + (~ref & 3) + 1):
                enter_together(world, leaves + leaf * INSTANCE_LEAF_SIZE, packet, walk, entries, size, active)
            shorten(packet, packet, bounds, group)
            active = NONE
        if active != NONE:
            size -= 1
        else:
            size, active = next_entry(packet, entries, size)
        ref = np.int64(load_i32(packet + at.PACKET_REFS + 4 * size))


@jit
def enter_together(world, leaf, packet, walk, entries, size, active):
    """The active rays through one instance."""
    store_i64(packet + at.ACTIVE, np.int64(active))
    call_walk_level(load_i64(world + state.WORLD_ENTER_GROUP), leaf, packet, walk, entries, size)


def enter_group(leaf, packet, walk, entries, size):
    """The active rays through one instance: filters, then its bottom level, group by group. A part (``parts``)."""
    world, active = load_i64(walk + state.WORLD), np.uint64(load_i64(packet + at.ACTIVE))
    if not is_open(world, leaf, walk):
        return 0
    blas = load_i64(walk + state.BLAS)
    reach = load_f32(blas + state.BLAS_REACH)
    if load_i64(blas + state.BLAS_IS_TRIANGLES) == 0 or reach >= HUGE:
        go_alone(packet, walk, active, leaf, np.int64(0))
        return 0
    store_i32(packet + at.ENTERED, np.int32(load_i64(walk + state.INSTANCE)))
    culled = load_i64(walk + state.OPACITY_OF_OPAQUE) >= OPACITY_CULLED_OPAQUE
    store_i32(packet + at.CULLED_OPAQUE, np.int32(1 if culled else 0))
    culled = load_i64(walk + state.OPACITY_OF_NON_OPAQUE) >= OPACITY_CULLED_OPAQUE
    store_i32(packet + at.CULLED_NON_OPAQUE, np.int32(1 if culled else 0))
    asked = load_i64(walk + state.OPACITY_OF_OPAQUE) == OPACITY_NON_OPAQUE
    store_i32(packet + at.ASKED_OPAQUE, np.int32(1 if asked else 0))
    asked = load_i64(walk + state.OPACITY_OF_NON_OPAQUE) == OPACITY_NON_OPAQUE
    store_i32(packet + at.ASKED_NON_OPAQUE, np.int32(1 if asked else 0))
    instance_flags = load_i64(walk + state.INSTANCE_FLAGS)
    space, finite = packet + at.PACKET_OBJECT, NONE
    for part in range(at.PARTS):
        own = np.uint64(transform_part(packet + at.PART_SIZE * part, leaf))
        finite |= own << np.uint64(16 * part)
        set_space(space + at.PART_SIZE * part, reach, np.float32(0.0), np.float32(1.0))
    active &= finite
    while active != NONE:
        kind = class_of(space, lowest_lane(active))
        group = same_class(space, kind, at.CLASS_BOTTOM) & active
        active &= ~group
        if count_lanes(group) <= FEW or kind & at.CLASS_HUGE != 0:
            go_alone(packet, walk, group, leaf, np.int64(0))
        else:
            set_group(space, packet, packet + at.BOUNDS_OBJECT, kind, group)
            set_facing(packet, kind, instance_flags, load_i64(walk + state.RAY_FLAGS))
            store_i64(packet + at.GROUP, np.int64(group))
            store_i64(packet + at.GROUP_CLASS, kind)
            call_walk_level(load_i64(world + state.WORLD_WALK_GROUP), blas, packet, walk, entries, size)
    return 0


@jit
def set_facing(packet, kind, instance_flags, ray_flags):
    """Hit kind and culling (FACE-1, CULL-3) for both signs of the determinant, from the sign of the longest axis."""
    upward = kind >> (kind >> at.CLASS_KZ) & 1 != 0
    for side in range(2):
        facing = hit_kind(upward == (side == 0), instance_flags)
        culled = is_facing_culled(facing, instance_flags, ray_flags)
        store_i32(packet + at.KIND_POSITIVE + 4 * side, np.int32(facing))
        store_i32(packet + at.CULLED_POSITIVE + 4 * side, np.int32(1 if culled else 0))


def walk_group(blas, packet, walk, entries, base):
    """A group of rays through the bottom level of one instance, in its object space, on the stack above ``base``. A
    part (``parts``)."""
    group, kind = np.uint64(load_i64(packet + at.GROUP)), load_i64(packet + at.GROUP_CLASS)
    space, bounds = packet + at.PACKET_OBJECT, packet + at.BOUNDS_OBJECT
    nodes, leaves = load_i64(blas + state.BLAS_NODES), load_i64(blas + state.BLAS_LEAVES)
    indices, vertices = load_i64(blas + state.BLAS_INDICES), load_i64(blas + state.BLAS_VERTICES)
    octant, kz = kind & at.CLASS_TOP, kind >> at.CLASS_KZ
    kx, ky = kz + 1 if kz < 2 else 0, kz - 1 if kz > 0 else 2
    for part in range(at.PARTS):
        set_part_shear(space + at.PART_SIZE * part, 64 * kx, 64 * ky, 64 * kz)
    hit_only = load_i32(packet + at.HIT_ONLY) != 0
    few_left, few_at_leaf = FEW_LEFT, FEW_AT_LEAF
    if hit_only:
        few_left, few_at_leaf = FEW_LEFT_HIT_ONLY, FEW_AT_LEAF_HIT_ONLY
    entries += at.ENTRY_VECTORS * base
    refs = 4 * base + at.PACKET_REFS
    aside = NONE
    size, ref, active = np.int64(0), np.int64(0), group
    while active != NONE:
        if count_lanes(active) <= (few_left if ref >= 0 else few_at_leaf):
            aside |= active
            if put_aside(packet, active, ref, entries + at.ENTRY_VECTORS * size):
                go_alone(packet, walk, aside, np.int64(0), blas)
                aside = NONE
            active = NONE
        elif ref >= 0:
            size, active = visit_children(
                nodes + ref * NODE_SIZE, space, packet, bounds, octant, active, entries, size, packet + refs
            )
        else:
            first, count = ~ref >> 2, (~ref & 3) + 1
            found = NONE
            step = 2 if indices == 0 else 1
            for pack in range(0, count, step):
                if indices == 0:
                    address = leaves + (first + pack) * TRIANGLE_PACK_SIZE
                else:
                    address = fill_pack(
                        leaves + (first + pack) * INDEXED_PACK_SIZE, indices, vertices, walk + state.PACK
                    )
                packs = least(count - pack, step)
                found |= test_leaf(address, packs, space, packet, kind, 16 * kx, 16 * ky, 16 * kz, active)
                if hit_only:
                    active &= ~found
            if found != NONE:
                shorten(space, packet, bounds, group)
                if load_f32(bounds + at.BOUND_END) == DEAD:
                    size = np.int64(0)
            active = NONE
        if active != NONE:
            size -= 1
        else:
            size, active = next_entry(packet, entries, size)
        ref = np.int64(load_i32(packet + refs + 4 * size))
    go_alone(packet, walk, aside, np.int64(0), blas)
    return 0


@jit
def go_alone(packet, walk, lanes, leaf, blas):
    """Walk rays with ``packet_alone.walk_alone``."""
    part = load_i64(load_i64(walk + state.WORLD) + state.WORLD_WALK_ALONE)
    call_walk_level(part, packet, walk, np.int64(lanes), np.int64(leaf), np.int64(blas))


@jit
def put_aside(packet, lanes, ref, entry):
    """Remember for rays that they have to go on from a reference; whether one has no room for more. ``entry``: address
    of where they enter."""
    is_full = False
    while lanes != NONE:
        lane = lowest_lane(lanes)
        lanes &= lanes - ONE
        count = np.int64(load_i32(packet + at.ASIDE + 4 * lane)) + 1
        item = packet + at.ASIDE_ITEMS + 8 * (at.ASIDE_ROOM * lane + count - 1)
        store_i32(item, np.int32(ref))
        store_f32(item + 4, load_f32(entry + 4 * lane))
        store_i32(packet + at.ASIDE + 4 * lane, np.int32(count))
        is_full |= count == at.ASIDE_ROOM
    return is_full


@jit
def report(request, packet, part, ray, invalid, world):
    """Write what the rays of a part have hit."""
    if load_i32(packet + at.HIT_ONLY) != 0:
        write_hit_or_miss(request, part, ray, invalid)
        return
    instance = np.int64(load_i32(part + at.PACKET_INSTANCE))
    bits = hit_lanes(part, instance)
    hit, same = bits & np.uint32(0xFFFF), bits >> np.uint32(16)
    if hit == 0:
        write_columns(request, part, ray, invalid, np.int64(-1), np.int64(-1))
        return
    walk = load_i64(request + at.REQUEST_WALK)
    base, step = load_i64(walk + state.RAY_CONTRIBUTION), load_i64(walk + state.MULTIPLIER)
    ids, contributions = load_i64(request + at.REQUEST_IDS), load_i64(request + at.REQUEST_CONTRIBUTIONS)
    if hit & ~same == 0 and instance >= 0:
        if load_i64(blas_of(world, instance) + state.BLAS_GEOMETRY_COUNT) == 1:
            group = base + load_i64(contributions + 8 * instance)
            write_columns(request, part, ray, invalid, load_i64(ids + 8 * instance), group)
            return
    write_columns(request, part, ray, invalid, np.int64(-1), np.int64(-1))
    while hit != 0:
        lane = lowest_bit(hit)
        hit &= hit - np.uint32(1)
        instance = np.int64(load_i32(part + at.PACKET_INSTANCE + 4 * lane))
        number = np.int64(load_i32(part + at.PACKET_NUMBER + 4 * lane))
        blas = blas_of(world, instance)
        geometries = load_i64(blas + state.BLAS_GEOMETRIES)
        geometry = np.int64(find_geometry(geometries, load_i64(blas + state.BLAS_GEOMETRY_COUNT), number))
        primitive = number - first_of_geometry(geometries, geometry)
        group = base + step * geometry + load_i64(contributions + 8 * instance)
        place = ray + lane
        store_i32(load_i64(request + at.REQUEST_GEOMETRY) + 4 * place, np.int32(geometry))
        store_i32(load_i64(request + at.REQUEST_PRIMITIVE) + 4 * place, np.int32(primitive))
        store_i64(load_i64(request + at.REQUEST_INSTANCE_ID) + 8 * place, load_i64(ids + 8 * instance))
        store_i64(load_i64(request + at.REQUEST_HIT_GROUP) + 8 * place, group)


@jit
def blas_of(world, instance):
    row = np.int64(load_i32(load_i64(world + state.WORLD_INSTANCE_BLAS) + 4 * instance))
    return load_i64(world + state.WORLD_BLASES) + row * state.BLAS_ROW_SIZE
