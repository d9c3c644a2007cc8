"""The walk of 16 rays at once: hits to the bit those of ``traverse``, where only opaque triangles decide.

``trace.packets`` says when it may be used. Rays walk together as long as their directions have the same signs (and, in
a bottom level, the same longest axis); a packet is cut into such groups, and what is left over walks alone, on the
block of one ray (``traverse``), as does everything that a packet cannot do: procedural boxes, huge coordinates.
Since no any-hit program runs, a hit depends on the candidates only and not on their order (DET-5).
"""

from __future__ import annotations

import numba
import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels import packet_state as at
from rtviewer.kernels import state
from rtviewer.kernels.candidates import fill_pack, find_geometry, first_of_geometry
from rtviewer.kernels.constants import (
    BACK_FACE,
    FRONT_FACE,
    INDEXED_PACK_SIZE,
    INSTANCE_DESC_SIZE,
    INSTANCE_LEAF_SIZE,
    NODE_SIZE,
    OPACITY_CULLED_OPAQUE,
    TRIANGLE_PACK_SIZE,
    VERDICT_NONE,
)
from rtviewer.kernels.culling import hit_kind, is_facing_culled
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, store_f32, store_f64, store_i32, store_i64
from rtviewer.kernels.packet_triangles import test_leaf
from rtviewer.kernels.packet_vector import (
    begin_packet,
    hit_lanes,
    same_class,
    set_group,
    set_packet_shear,
    set_space,
    shorten,
    still_active,
    take_columns,
    transform_packet,
    visit_children,
    write_columns,
)
from rtviewer.kernels.ray_box import WIDEN
from rtviewer.kernels.ray_triangle import HUGE
from rtviewer.kernels.traverse import enter_instance as enter_alone
from rtviewer.kernels.traverse import instance_verdict
from rtviewer.kernels.traverse import walk_top as walk_alone
from rtviewer.kernels.vector import lowest_bit

AVAILABLE = not numba.config.DISABLE_JIT
"""Vector code has no twin here: without the JIT there are no packets."""
ALL = np.uint32(0xFFFF)
FIRST_TRIANGLE_KIND = min(FRONT_FACE, BACK_FACE)
DEAD = np.float32(-np.inf)


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
    store_i32(packet + at.HIT_ONLY, np.int32(load_i64(request + at.REQUEST_HIT_ONLY)))
    for ray in range(first, last, at.LANES):
        bits = load_rays(request, packet, ray, min(last - ray, at.LANES))
        traced = bits & ALL
        if traced != 0 and load_i64(world + state.WORLD_NODE_COUNT) > 0:
            walk_world(world, packet, walk, entries, traced)
        report(request, packet, ray, bits >> np.uint32(16), world)


@jit
def load_rays(request, packet, ray, count):
    """Sixteen rays, or the fewer that are left, as columns; what ``begin_packet`` returns."""
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
    return begin_packet(packet, t_min, t_max, (np.uint32(1) << np.uint32(count)) - np.uint32(1))


@jit
def is_few(bits):
    """Whether so few rays are faster alone: fewer than three."""
    bits &= bits - np.uint32(1)
    return bits & (bits - np.uint32(1)) == 0


@jit
def walk_world(world, packet, walk, entries, traced):
    """All rays of a packet through the top level, group by group."""
    reach, condition = load_f32(world + state.WORLD_REACH), load_f32(world + state.WORLD_CONDITION)
    set_space(packet, reach, np.float32(1.0), condition)
    while traced != 0:
        lane = lowest_bit(traced)
        group = same_class(packet, lane, at.CLASS_TOP) & traced
        traced &= ~group
        if is_few(group):
            while group != 0:
                lane = lowest_bit(group)
                group &= group - np.uint32(1)
                load_lane(packet, walk, lane)
                walk_alone(world, walk, None, None)
                store_lane(packet, walk, lane)
        else:
            octant = np.int64(load_i32(packet + at.SPACE_CLASS + 4 * lane)) & at.CLASS_TOP
            set_group(packet, octant, group)
            shorten(packet, group)
            walk_top(world, packet, walk, entries, octant, group)


@jit
def next_entry(packet, entries, size):
    """Take entries off the stack until one is met by rays: (their bits, 0 when none is left; the stack's size)."""
    active = np.uint32(0)
    while size > 0 and active == 0:
        size -= 1
        active = still_active(packet, entries + at.VECTOR * size)
    return active, size


@jit
def walk_top(world, packet, walk, entries, octant, group):
    """A group of rays through the top level: nodes, then each instance that a leaf names."""
    nodes, leaves = load_i64(world + state.WORLD_NODES), load_i64(world + state.WORLD_LEAVES)
    size, ref, active = 0, np.int64(0), group
    while active != 0:
        if ref >= 0:
            size = visit_children(nodes + ref * NODE_SIZE, packet, packet, octant, active, entries, size)
        else:
            for leaf in range(~ref >> 2, (~ref >> 2) + (~ref & 3) + 1):
                enter(world, leaves + leaf * INSTANCE_LEAF_SIZE, packet, walk, entries, size, active)
            shorten(packet, group)
        active, size = next_entry(packet, entries, size)
        ref = np.int64(load_i32(packet + at.PACKET_REFS + 4 * size))


@jit
def enter(world, leaf, packet, walk, entries, size, active):
    """The active rays through one instance: filters, then its bottom level, group by group."""
    instance = np.int64(load_i32(leaf + 48))
    row = np.int64(load_i32(load_i64(world + state.WORLD_INSTANCE_BLAS) + 4 * instance))
    desc = load_i64(world + state.WORLD_DESCS) + instance * INSTANCE_DESC_SIZE
    if instance_verdict(world, row, instance, desc, leaf, walk) != VERDICT_NONE:
        return
    blas = load_i64(world + state.WORLD_BLASES) + row * state.BLAS_ROW_SIZE
    reach = load_f32(blas + state.BLAS_REACH)
    if load_i64(blas + state.BLAS_IS_TRIANGLES) == 0 or reach >= HUGE:
        enter_each(world, leaf, packet, walk, active)
        return
    store_i32(packet + at.ENTERED, np.int32(instance))
    culled = load_i64(walk + state.OPACITY_OF_OPAQUE) >= OPACITY_CULLED_OPAQUE
    store_i32(packet + at.CULLED_OPAQUE, np.int32(1 if culled else 0))
    culled = load_i64(walk + state.OPACITY_OF_NON_OPAQUE) >= OPACITY_CULLED_OPAQUE
    store_i32(packet + at.CULLED_NON_OPAQUE, np.int32(1 if culled else 0))
    instance_flags = load_i64(walk + state.INSTANCE_FLAGS)
    active &= transform_packet(packet, leaf)
    space = packet + at.PACKET_OBJECT
    set_space(space, reach, np.float32(0.0), np.float32(1.0))
    while active != 0:
        lane = lowest_bit(active)
        group = same_class(space, lane, at.CLASS_BOTTOM) & active
        active &= ~group
        kind = np.int64(load_i32(space + at.SPACE_CLASS + 4 * lane))
        if is_few(group) or kind & at.CLASS_HUGE != 0:
            enter_each(world, leaf, packet, walk, group)
        else:
            set_group(space, kind, group)
            shorten(packet, group)
            set_facing(packet, kind, instance_flags, load_i64(walk + state.RAY_FLAGS))
            walk_bottom(blas, packet, walk, entries, size, kind, group)


@jit
def set_facing(packet, kind, instance_flags, ray_flags):
    """Hit kind and culling (FACE-1, CULL-3) for both signs of the determinant, from the sign of the longest axis."""
    upward = kind >> (kind >> at.CLASS_KZ) & 1 != 0
    for side in range(2):
        facing = hit_kind(upward == (side == 0), instance_flags)
        culled = is_facing_culled(facing, instance_flags, ray_flags)
        store_i32(packet + at.KIND_POSITIVE + 4 * side, np.int32(facing))
        store_i32(packet + at.CULLED_POSITIVE + 4 * side, np.int32(1 if culled else 0))


@jit
def walk_bottom(blas, packet, walk, entries, base, kind, group):
    """A group of rays through the bottom level of one instance, in its object space, on the stack above ``base``."""
    space = packet + at.PACKET_OBJECT
    nodes, leaves = load_i64(blas + state.BLAS_NODES), load_i64(blas + state.BLAS_LEAVES)
    indices, vertices = load_i64(blas + state.BLAS_INDICES), load_i64(blas + state.BLAS_VERTICES)
    octant, kz = kind & at.CLASS_TOP, kind >> at.CLASS_KZ
    kx, ky = kz + 1 if kz < 2 else 0, kz - 1 if kz > 0 else 2
    set_packet_shear(space, 64 * kx, 64 * ky, 64 * kz)
    hit_only = load_i32(packet + at.HIT_ONLY) != 0
    own = entries + at.VECTOR * base
    refs = packet + 4 * base
    size, ref, active = 0, np.int64(0), group
    while active != 0:
        if ref >= 0:
            size = visit_children(nodes + ref * NODE_SIZE, space, packet, octant, active, entries, base + size) - base
        else:
            first, count = ~ref >> 2, (~ref & 3) + 1
            found = np.uint32(0)
            step = 2 if indices == 0 else 1
            for pack in range(0, count, step):
                if indices == 0:
                    address = leaves + (first + pack) * TRIANGLE_PACK_SIZE
                else:
                    address = fill_pack(
                        leaves + (first + pack) * INDEXED_PACK_SIZE, indices, vertices, walk + state.PACK
                    )
                packs = min(count - pack, step)
                found |= test_leaf(address, packs, space, packet, kind, 16 * kx, 16 * ky, 16 * kz, active)
                if hit_only:
                    active &= ~found
            if found != 0:
                shorten(packet, group)
                if load_f32(packet + at.WIDEST_END) == DEAD:
                    return
        active, size = next_entry(packet, own, size)
        ref = np.int64(load_i32(refs + at.PACKET_REFS + 4 * size))


@jit
def enter_each(world, leaf, packet, walk, lanes):
    """Rays into an instance one by one."""
    while lanes != 0:
        lane = lowest_bit(lanes)
        lanes &= lanes - np.uint32(1)
        load_lane(packet, walk, lane)
        enter_alone(world, leaf, walk, 0, np.int64(-1), np.float32(0.0), np.float32(0.0), None, None)
        store_lane(packet, walk, lane)


@jit
def load_lane(packet, walk, lane):
    """A ray and what it has hit so far from the packet to the block of one ray."""
    own = packet + 4 * lane
    for axis in range(3):
        store_f32(walk + state.ORIGIN + 4 * axis, load_f32(own + at.SPACE_ORIGIN + at.VECTOR * axis))
        store_f32(walk + state.DIRECTION + 4 * axis, load_f32(own + at.SPACE_DIRECTION + at.VECTOR * axis))
    store_f32(walk + state.T_MIN, load_f32(own + at.PACKET_T_MIN))
    store_f32(walk + state.T_MAX, load_f32(own + at.PACKET_T_MAX))
    store_f32(walk + state.T_CURRENT, load_f32(own + at.PACKET_END))
    store_i64(walk + state.ENDED, np.int64(1 if load_f32(own + at.PACKET_END) == DEAD else 0))
    store_i64(walk + state.FAULT, np.int64(0))
    instance, kind = np.int64(load_i32(own + at.PACKET_INSTANCE)), np.int64(load_i32(own + at.PACKET_KIND))
    store_i64(walk + state.HIT_INSTANCE, instance)
    store_i64(walk + state.HIT_NUMBER, np.int64(load_i32(own + at.PACKET_NUMBER)))
    store_i64(walk + state.HIT_KIND, kind if instance >= 0 else np.int64(-1))
    store_i64(walk + state.HIT_IS_TRIANGLE, np.int64(1 if kind >= FIRST_TRIANGLE_KIND else 0))
    store_i64(walk + state.HIT_WAS_OPAQUE, np.int64(1))


@jit
def store_lane(packet, walk, lane):
    """What a ray has hit alone back to the packet, if it is new."""
    own, wide = packet + 4 * lane, packet + 8 * lane
    instance, number = load_i64(walk + state.HIT_INSTANCE), load_i64(walk + state.HIT_NUMBER)
    kind, end = load_i64(walk + state.HIT_KIND), load_f32(walk + state.T_CURRENT)
    if instance < 0 or load_f32(own + at.PACKET_END) == DEAD:
        return
    is_old = instance == load_i32(own + at.PACKET_INSTANCE) and number == load_i32(own + at.PACKET_NUMBER)
    if is_old and kind == load_i32(own + at.PACKET_KIND) and end == load_f32(own + at.PACKET_END):
        return
    if load_i32(packet + at.HIT_ONLY) != 0:
        end = DEAD
    store_f32(own + at.PACKET_END, end)
    store_f32(own + at.PACKET_WIDE_END, end * WIDEN)
    store_i32(own + at.PACKET_INSTANCE, np.int32(instance))
    store_i32(own + at.PACKET_NUMBER, np.int32(number))
    store_i32(own + at.PACKET_KIND, np.int32(kind))
    store_f64(wide + at.PACKET_V, np.float64(load_f32(walk + state.ATTRIBUTE_0)))
    store_f64(wide + at.PACKET_W, np.float64(load_f32(walk + state.ATTRIBUTE_1)))
    store_f64(wide + at.PACKET_DET, np.float64(1.0))


@jit
def report(request, packet, ray, invalid, world):
    """Write what the rays of a packet have hit."""
    instance = np.int64(load_i32(packet + at.PACKET_INSTANCE))
    bits = hit_lanes(packet, instance)
    hit, same = bits & ALL, bits >> np.uint32(16)
    if hit == 0 or load_i32(packet + at.HIT_ONLY) != 0:
        write_columns(request, packet, ray, invalid, np.int64(-1), np.int64(-1))
        return
    walk = load_i64(request + at.REQUEST_WALK)
    base, step = load_i64(walk + state.RAY_CONTRIBUTION), load_i64(walk + state.MULTIPLIER)
    ids, contributions = load_i64(request + at.REQUEST_IDS), load_i64(request + at.REQUEST_CONTRIBUTIONS)
    if hit & ~same == 0 and instance >= 0:
        if load_i64(blas_of(world, instance) + state.BLAS_GEOMETRY_COUNT) == 1:
            group = base + load_i64(contributions + 8 * instance)
            write_columns(request, packet, ray, invalid, load_i64(ids + 8 * instance), group)
            return
    write_columns(request, packet, ray, invalid, np.int64(-1), np.int64(-1))
    while hit != 0:
        lane = lowest_bit(hit)
        hit &= hit - np.uint32(1)
        instance = np.int64(load_i32(packet + at.PACKET_INSTANCE + 4 * lane))
        number = np.int64(load_i32(packet + at.PACKET_NUMBER + 4 * lane))
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
