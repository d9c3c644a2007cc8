"""Rays of a packet that walk side by side (``stream``) rather than together: to their slots, and what they hit back."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit, state
from rtviewer.kernels import packet_state as at
from rtviewer.kernels.constants import BACK_FACE, FRONT_FACE
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, store_f32, store_f64, store_i32, store_i64
from rtviewer.kernels.packet_vector import lowest_lane
from rtviewer.kernels.parts import call_walk_level
from rtviewer.kernels.ray_box import WIDEN
from rtviewer.kernels.stream import be_at_bottom, begin_top, enter, slot_of, take_next
from rtviewer.kernels.traverse import ordered

ONE, NONE = np.uint64(1), np.uint64(0)
FIRST_TRIANGLE_KIND = min(FRONT_FACE, BACK_FACE)
DEAD = np.float32(-np.inf)


def walk_alone(packet, walk, lanes, leaf, blas):
    """Rays side by side (``stream``) rather than together. A part (``parts``).

    ``leaf``: of the instance that they enter. ``blas``, where ``leaf`` is 0: row of the bottom level of which they have
    put parts aside, and go on with those. Both 0: they start at the top.
    """
    world, stream, waiting = load_i64(walk + state.WORLD), load_i64(packet + at.STREAM), np.uint64(lanes)
    while waiting != NONE:
        count, chosen = np.int64(0), waiting
        while waiting != NONE and count < load_i64(stream + state.STREAM_COUNT):
            lane = lowest_lane(waiting)
            waiting &= waiting - ONE
            stand(world, packet, walk, slot_of(stream, count), lane, leaf, blas)
            count += 1
        call_walk_level(load_i64(world + state.WORLD_WALK_SLOTS), world, stream, count, np.int64(0), np.int64(0))
        for number in range(count):
            lane = lowest_lane(chosen)
            chosen &= chosen - ONE
            store_lane(packet, slot_of(stream, number), lane)
    return 0


@jit
def stand(world, packet, walk, slot, lane, leaf, blas):
    """Let a slot stand where its ray starts; see ``walk_alone``."""
    load_lane(packet, slot, lane)
    if load_i64(slot + state.ENDED) != 0:
        return
    if blas == 0:
        load_ray(packet, slot, lane)
    if leaf == 0 and blas == 0:
        begin_top(world, slot)
        return
    for field in (
        state.INSTANCE, state.INSTANCE_FLAGS, state.INSTANCE_CONTRIBUTION, state.OPACITY_OF_OPAQUE,
        state.OPACITY_OF_NON_OPAQUE, state.BLAS,
    ):  # fmt: skip
        store_i64(slot + field, load_i64(walk + field))
    store_i32(slot + state.OPACITY_KEY, load_i32(walk + state.OPACITY_KEY))
    if leaf != 0:
        enter(leaf, slot, np.int64(0))
    else:
        stand_aside(packet, slot, lane)


@jit
def stand_aside(packet, slot, lane):
    """Let a slot stand at the parts of the bottom level that its ray has put aside, those met first before the
    others."""
    own = packet + at.PART_SIZE * (lane >> 4) + 4 * (lane & 15) + at.PACKET_OBJECT
    kind = load_i64(packet + at.GROUP_CLASS)
    for axis in range(3):
        row = at.VECTOR * axis
        store_f32(slot + state.OBJECT_DIRECTION + 4 * axis, load_f32(own + at.SPACE_DIRECTION + row))
        slab, reciprocal = slot + state.SLAB_BOTTOM + 4 * axis, load_f32(own + at.SPACE_RECIPROCAL + row)
        store_f32(slab, load_f32(own + at.SPACE_NEAR + row))
        store_f32(slab + state.SLAB_FAR, load_f32(own + at.SPACE_FAR + row))
        store_f32(slab + state.SLAB_RECIPROCAL, reciprocal)
        store_f32(slab + state.SLAB_FAR_RECIPROCAL, reciprocal * WIDEN)
        store_i32(slab + state.SLAB_PLANES, np.int32(64 * axis + 32 - (32 & kind << 5 >> axis)))
    for row in range(6):
        store_f32(slot + state.SHEAR + 4 * row, load_f32(own + at.SPACE_SHEAR + at.VECTOR * row))
    store_f32(slot + state.SHEAR + state.SHEAR_SCALE, np.float32(1.0))
    store_i64(slot + state.KZ, kind >> at.CLASS_KZ)
    store_i64(slot + state.OCTANT, ordered(slot, kind & at.CLASS_TOP))
    be_at_bottom(slot, load_i64(slot + state.BLAS))
    count = np.int64(load_i32(packet + at.ASIDE + 4 * lane))
    store_i32(packet + at.ASIDE + 4 * lane, np.int32(0))
    for number in range(count):
        item, size = packet + at.ASIDE_ITEMS + 8 * (at.ASIDE_ROOM * lane + count - 1 - number), number + 1
        store_i32(load_i64(slot + state.STACK_REFERENCES) + 4 * size, load_i32(item))
        store_f32(load_i64(slot + state.STACK_ENTRIES) + 4 * size, load_f32(item + 4))
    take_next(slot, count + 1)


@jit
def load_ray(packet, walk, lane):
    """A ray from the packet to the block of one ray; ``load_lane`` has the rest."""
    own = packet + at.PART_SIZE * (lane >> 4) + 4 * (lane & 15)
    for axis in range(3):
        store_f32(walk + state.ORIGIN + 4 * axis, load_f32(own + at.SPACE_ORIGIN + at.VECTOR * axis))
        store_f32(walk + state.DIRECTION + 4 * axis, load_f32(own + at.SPACE_DIRECTION + at.VECTOR * axis))


@jit
def load_lane(packet, walk, lane):
    """The interval of a ray and what it has hit so far from the packet to the block of one ray."""
    own = packet + at.PART_SIZE * (lane >> 4) + 4 * (lane & 15)
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
    # Where it may not have been, no tie with it goes by DET-5.
    store_i64(walk + state.HIT_WAS_OPAQUE, np.int64(1 if load_i64(packet + at.ASK) == 0 else 0))
    store_i64(walk + state.TIED, np.int64(0))


@jit
def store_lane(packet, walk, lane):
    """What a ray has hit alone back to the packet, if it is new; whether it was."""
    part = packet + at.PART_SIZE * (lane >> 4)
    own, wide = part + 4 * (lane & 15), part + 8 * (lane & 15)
    if load_i64(walk + state.TIED) != 0:
        store_i64(packet + at.IN_DOUBT, load_i64(packet + at.IN_DOUBT) | np.int64(ONE << np.uint64(lane)))
    instance, number = load_i64(walk + state.HIT_INSTANCE), load_i64(walk + state.HIT_NUMBER)
    kind, end = load_i64(walk + state.HIT_KIND), load_f32(walk + state.T_CURRENT)
    if instance < 0 or load_f32(own + at.PACKET_END) == DEAD:
        return False
    is_old = instance == load_i32(own + at.PACKET_INSTANCE) and number == load_i32(own + at.PACKET_NUMBER)
    if is_old and kind == load_i32(own + at.PACKET_KIND) and end == load_f32(own + at.PACKET_END):
        return False
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
    return True
