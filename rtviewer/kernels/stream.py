"""The walk of many rays side by side, each by itself: what traces rays where nothing is counted or logged.

The steps of one ray wait for each other, and for memory: what is visited next is known only when a node's boxes have
been tested. So rays take turns. Each has a slot, which is the block of its walk (``state``) with its stack behind it.
All slots that stand at a node visit it, one after the other, then all that stand elsewhere do what is to be done there;
what a slot needs next is fetched while the others have their turns. Which turn a slot is in is a matter of which list
it stands in, so the processor has few branches to guess.

A ray meets nodes, instances and candidates in the same order as in ``traverse``, where one ray is walked with counters
and log: hits are the same to the bit, and programs notice nothing.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import inline_jit, jit
from rtviewer.kernels.batch import are_arguments_alike, begin_ray, finish_ray, set_arguments
from rtviewer.kernels.constants import (
    BOX_PACK_SIZE,
    INDEXED_PACK_SIZE,
    INSTANCE_LEAF_SIZE,
    NODE_SIZE,
    PACK_IDS,
    TRIANGLE_PACK_SIZE,
    VERDICT_NONE,
)
from rtviewer.kernels.extremes import least
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, store_f32, store_i32, store_i64
from rtviewer.kernels.parts import call_walk_level
from rtviewer.kernels.ray_box import WIDEN
from rtviewer.kernels.ray_setup import is_object_ray_finite, is_usual, to_object
from rtviewer.kernels.spheres import begin_spheres
from rtviewer.kernels.state import (
    BLAS,
    BLAS_INDICES,
    BLAS_IS_TRIANGLES,
    BLAS_LEAVES,
    BLAS_NODES,
    BLAS_REACH,
    BLAS_VERTICES,
    EDGES,
    ENDED,
    KZ,
    LEVEL_LEAF_KIND,
    LEVEL_LEAF_SIZE,
    LEVEL_LEAVES,
    LEVEL_NODES,
    LEVEL_OCTANT,
    LEVEL_SLAB,
    OBJECT_ORIGIN,
    OCTANT,
    OPACITY_KEY,
    ORIGIN,
    PACK,
    PACK_FOUND,
    SHEAR,
    SHEAR_SCALE,
    SLAB_BOTTOM,
    SLAB_TOP,
    SLOT_NEXT,
    SLOT_RAY,
    SLOT_SIZE,
    STACK_ENTRIES,
    STACK_REFERENCES,
    STREAM_COUNT,
    STREAM_FIRST,
    STREAM_LAST,
    STREAM_LISTS,
    STREAM_ROOM,
    STREAM_SLOT_SIZE,
    STREAM_SLOTS,
    T_CURRENT,
    T_MIN,
    WALK_SIZE,
    WORLD,
    WORLD_LEAVES,
    WORLD_NODE_COUNT,
    WORLD_NODES,
    WORLD_ONLY_LEAF,
    WORLD_TEST_BOXES,
    WORLD_WALK_SLOTS,
)
from rtviewer.kernels.traverse import instance_verdict, order_of, set_bottom, set_top
from rtviewer.kernels.triangles import axis_offset, fill_pack, test_met_triangles, used_lanes
from rtviewer.kernels.vector import fetch, stack_children, triangles

FLOOR = np.int64(-(1 << 31))
"""The reference under what a level has stacked. No leaf has this one: it would name packs past the last."""
NEVER = np.float32(-np.inf)
INSTANCES, TRIANGLES, INDEXED, BOXES, SPHERES = np.int64(0), np.int64(1), np.int64(2), np.int64(3), np.int64(4)
"""Kinds of leaves; the last are boxes of built-in spheres (``spheres``)."""
NOBODY = np.int64(-1)
"""No ray."""
FEW = np.int64(4)
"""So many slots at nodes, or fewer, wait for the others, whose turn it is: a turn of few hides little."""


@jit
def trace_stream(world, batch, stream, first, last):
    """Trace rays ``first`` to ``last - 1``. ``world``, ``batch``, ``stream``: addresses of blocks laid out in
    ``state``."""
    alike = are_arguments_alike(batch)
    only = load_i64(world + WORLD_ONLY_LEAF) if alike else np.int64(0)
    count = least(load_i64(stream + STREAM_COUNT), last - first)
    for number in range(count):
        slot = prepare_slot(world, stream, number)
        if alike:
            set_arguments(slot, batch, first)
        if only != 0 and not is_open(world, only, slot):
            store_i64(slot + BLAS, np.int64(0))
    store_i64(stream + STREAM_FIRST, np.int64(first))
    store_i64(stream + STREAM_LAST, np.int64(last))
    call_walk_level(load_i64(world + WORLD_WALK_SLOTS), world, stream, count, np.int64(batch), only)


@inline_jit
def slot_of(stream, number):
    return load_i64(stream + STREAM_SLOTS) + load_i64(stream + STREAM_SLOT_SIZE) * number


@jit
def prepare_slot(world, stream, number):
    """The address of a slot, which stands at the floor of its stack."""
    slot = slot_of(stream, number)
    stack = slot + WALK_SIZE
    store_i64(slot + WORLD, world)
    store_i32(slot + OPACITY_KEY, np.int32(-1))
    store_i64(slot + STACK_REFERENCES, stack)
    store_i64(slot + STACK_ENTRIES, stack + 4 * load_i64(stream + STREAM_ROOM))
    put_floor(slot, np.int64(0))
    store_i64(slot + SLOT_NEXT, FLOOR)
    store_i64(slot + SLOT_SIZE, np.int64(0))
    store_i64(slot + SLOT_RAY, NOBODY)
    return slot


@inline_jit
def put_floor(slot, size):
    """Stack what is taken off last."""
    store_i32(load_i64(slot + STACK_REFERENCES) + 4 * size, np.int32(FLOOR))
    store_f32(load_i64(slot + STACK_ENTRIES) + 4 * size, NEVER)


def walk_slots(world, stream, count, batch, only):
    """Walk the first ``count`` slots until all have come to the floor of their stacks. A part (``parts``).

    There they are given the rays of ``batch`` from STREAM_FIRST to STREAM_LAST - 1, as long as there are any. ``only``:
    the leaf of the instance that these start in, 0 where they start at the top. A slot whose ray is NOBODY is none of
    the batch.
    """
    ray, last = load_i64(stream + STREAM_FIRST), load_i64(stream + STREAM_LAST)
    room = 8 * load_i64(stream + STREAM_COUNT)
    at_node = load_i64(stream + STREAM_LISTS)
    at_node_next, elsewhere, elsewhere_next = at_node + room, at_node + 2 * room, at_node + 3 * room
    nodes, others = np.int64(0), np.int64(0)
    for number in range(count):
        slot = slot_of(stream, number)
        nodes, others = put(slot, load_i64(slot + SLOT_NEXT), at_node, nodes, elsewhere, others)
    while nodes + others > 0:
        while nodes > FEW or (nodes > 0 and others == 0):
            left = np.int64(0)
            for number in range(nodes):
                slot = load_i64(at_node + 8 * number)
                left, others = put(slot, visit(slot), at_node_next, left, elsewhere, others)
            at_node, at_node_next, nodes = at_node_next, at_node, left
        left = np.int64(0)
        for number in range(others):
            slot = load_i64(elsewhere + 8 * number)
            reference = load_i64(slot + SLOT_NEXT)
            if reference != FLOOR:
                reference = test_leaf(world, slot, reference)
            elif load_i64(slot + SLOT_SIZE) != 0:
                reference = leave_instance(world, slot)
            else:
                if load_i64(slot + SLOT_RAY) >= 0:
                    finish_ray(slot, batch, load_i64(slot + SLOT_RAY))
                if ray >= last:
                    continue
                reference = start_ray(world, slot, batch, ray, only)
                ray += 1
            nodes, left = put(slot, reference, at_node, nodes, elsewhere_next, left)
        elsewhere, elsewhere_next, others = elsewhere_next, elsewhere, left
    return 0


@inline_jit
def put(slot, reference, at_node, nodes, elsewhere, others):
    """Put a slot into the list of what it stands at; how many stand in both. Without a branch: it goes into both, and
    the next one takes the place in that which does not count it."""
    store_i64(at_node + 8 * nodes, slot)
    store_i64(elsewhere + 8 * others, slot)
    is_node = np.int64(reference >= 0)
    return nodes + is_node, others + (1 - is_node)


@inline_jit
def visit(slot):
    """The node that a slot stands at; the reference it stands at next."""
    node = load_i64(slot + LEVEL_NODES) + load_i64(slot + SLOT_NEXT) * NODE_SIZE
    reference, entry, size = stack_children(
        node, load_i64(slot + LEVEL_SLAB), load_f32(slot + T_MIN), load_f32(slot + T_CURRENT) * WIDEN,
        load_i64(slot + STACK_REFERENCES), load_i64(slot + STACK_ENTRIES), load_i64(slot + SLOT_SIZE),
        load_i64(slot + LEVEL_OCTANT),
    )  # fmt: skip
    return stand_at(slot, reference, entry, size)


@inline_jit
def take_next(slot, size):
    """Take entries off the stack until one begins within the current end; its reference, which the slot stands at."""
    size -= 1
    entry = load_f32(load_i64(slot + STACK_ENTRIES) + 4 * size)
    return stand_at(slot, np.int64(load_i32(load_i64(slot + STACK_REFERENCES) + 4 * size)), entry, size)


@inline_jit
def stand_at(slot, reference, entry, size):
    """Let a slot stand at what was taken off its stack, or at the first below that begins within the current end; its
    reference, which is fetched."""
    limit = load_f32(slot + T_CURRENT) * WIDEN
    while entry > limit:
        size -= 1
        entry = load_f32(load_i64(slot + STACK_ENTRIES) + 4 * size)
        reference = np.int64(load_i32(load_i64(slot + STACK_REFERENCES) + 4 * size))
    store_i64(slot + SLOT_SIZE, size)
    store_i64(slot + SLOT_NEXT, reference)
    node = load_i64(slot + LEVEL_NODES) + reference * NODE_SIZE
    leaf = load_i64(slot + LEVEL_LEAVES) + (~reference >> 2) * load_i64(slot + LEVEL_LEAF_SIZE)
    fetch(node if reference >= 0 else leaf)
    return reference


@inline_jit
def start_ray(world, slot, batch, ray, only):
    """Give a slot a ray; the reference it stands at: the floor where nothing can be hit."""
    store_i64(slot + SLOT_RAY, ray)
    if only == 0:
        set_arguments(slot, batch, ray)
    is_traced = begin_ray(slot, batch, ray)
    if is_traced and only == 0:
        begin_top(world, slot)
    elif is_traced and load_i64(slot + BLAS) != 0:
        enter(only, slot, np.int64(0))
    return load_i64(slot + SLOT_NEXT)


@inline_jit
def stand_at_root(slot, size):
    """The next of a slot is the root of a level; ``size``: of the stack with its floor."""
    store_i64(slot + SLOT_SIZE, size)
    store_i64(slot + SLOT_NEXT, np.int64(0))


@jit
def begin_top(world, slot):
    """The ray of a slot stands at the root of the top level, where there is one."""
    if load_i64(world + WORLD_NODE_COUNT) > 0:
        set_top(world, slot)
        be_at_top(world, slot)
        stand_at_root(slot, np.int64(1))


@inline_jit
def be_at_top(world, slot):
    """The level of a slot is the top."""
    store_i64(slot + LEVEL_NODES, load_i64(world + WORLD_NODES))
    store_i64(slot + LEVEL_LEAVES, load_i64(world + WORLD_LEAVES))
    store_i64(slot + LEVEL_LEAF_SIZE, np.int64(INSTANCE_LEAF_SIZE))
    store_i64(slot + LEVEL_LEAF_KIND, INSTANCES)
    store_i64(slot + LEVEL_SLAB, slot + SLAB_TOP)
    store_i64(slot + LEVEL_OCTANT, order_of(slot, ORIGIN))


@inline_jit
def be_at_bottom(slot, blas):
    """The level of a slot is that of a BLAS row."""
    kind, size = TRIANGLES, np.int64(TRIANGLE_PACK_SIZE)
    if load_i64(blas + BLAS_IS_TRIANGLES) == 0:
        kind, size = SPHERES if begin_spheres(slot) else BOXES, np.int64(BOX_PACK_SIZE)
    elif load_i64(blas + BLAS_INDICES) != 0:
        kind, size = INDEXED, np.int64(INDEXED_PACK_SIZE)
    store_i64(slot + LEVEL_NODES, load_i64(blas + BLAS_NODES))
    store_i64(slot + LEVEL_LEAVES, load_i64(blas + BLAS_LEAVES))
    store_i64(slot + LEVEL_LEAF_SIZE, size)
    store_i64(slot + LEVEL_LEAF_KIND, kind)
    store_i64(slot + LEVEL_SLAB, slot + SLAB_BOTTOM)
    store_i64(slot + LEVEL_OCTANT, load_i64(slot + OCTANT))


@jit
def is_open(world, leaf, slot):
    """Whether an instance lets rays in; then the slot knows what its walk has to know of it."""
    return instance_verdict(world, leaf, slot) == VERDICT_NONE


@inline_jit
def enter(leaf, slot, size):
    """Into an instance that is open, above ``size`` entries of the stack, if the ray is finite in its space; whether it
    was."""
    blas = load_i64(slot + BLAS)
    to_object(leaf, slot)
    usual = is_usual(slot + OBJECT_ORIGIN, load_f32(blas + BLAS_REACH))
    if not usual and not is_object_ray_finite(slot):
        return False
    set_bottom(blas, usual, slot)
    be_at_bottom(slot, blas)
    put_floor(slot, size)
    stand_at_root(slot, size + 1)
    return True


@inline_jit
def leave_instance(world, slot):
    """Back to the top level, which goes on below the floor; the reference it goes on with."""
    be_at_top(world, slot)
    return take_next(slot, load_i64(slot + SLOT_SIZE))


@inline_jit
def test_leaf(world, slot, reference):
    """What is in a leaf; the reference that a slot stands at next."""
    kind, blas = load_i64(slot + LEVEL_LEAF_KIND), load_i64(slot + BLAS)
    first, last = ~reference >> 2, (~reference >> 2) + (~reference & 3) + 1
    if kind == INSTANCES:
        return enter_first(world, slot, reference)
    if kind >= BOXES:
        call_walk_level(load_i64(world + WORLD_TEST_BOXES), blas, slot, first, last, np.int64(kind == SPHERES))
    else:
        for pack in range(first, last):
            lanes = test_pack(pack, kind, blas, slot)
            if lanes != 0:
                test_met_triangles(lanes, blas, slot)
                if load_i64(slot + ENDED) != 0:
                    break
    if load_i64(slot + ENDED) != 0:
        store_i64(slot + SLOT_SIZE, np.int64(0))
        store_i64(slot + SLOT_NEXT, FLOOR)
        return FLOOR
    return take_next(slot, load_i64(slot + SLOT_SIZE))


@jit
def enter_first(world, slot, reference):
    """Into the first instance of a leaf; the others take the leaf's place on the stack."""
    size = load_i64(slot + SLOT_SIZE)
    if ~reference & 3 != 0:
        rest = ~((~reference >> 2) + 1 << 2 | (~reference & 3) - 1)
        store_i32(load_i64(slot + STACK_REFERENCES) + 4 * size, np.int32(rest))
        size += 1
    leaf = load_i64(world + WORLD_LEAVES) + (~reference >> 2) * INSTANCE_LEAF_SIZE
    if is_open(world, leaf, slot) and enter(leaf, slot, size):
        return np.int64(0)
    return take_next(slot, size)


@inline_jit
def test_pack(pack, kind, blas, slot):
    """Lanes of a pack that the ray may meet, and in the slot what is known of them."""
    address = load_i64(slot + LEVEL_LEAVES) + pack * load_i64(slot + LEVEL_LEAF_SIZE)
    if kind == INDEXED:
        address = fill_pack(address, load_i64(blas + BLAS_INDICES), load_i64(blas + BLAS_VERTICES), slot + PACK)
    store_i64(slot + PACK_FOUND, address)
    shear, kz = slot + SHEAR, load_i64(slot + KZ)
    if load_f32(shear + SHEAR_SCALE) != np.float32(1.0):
        return used_lanes(address + PACK_IDS)
    return triangles(
        address, axis_offset(kz, 1), axis_offset(kz, 2), axis_offset(kz, 0), shear,
        load_f32(slot + T_MIN), load_f32(slot + T_CURRENT), slot + EDGES,
    )  # fmt: skip
