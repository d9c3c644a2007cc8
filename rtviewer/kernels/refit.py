"""New boxes for an old tree.

A part is a range of nodes with all their leaves: its leaf elements are listed and written, their boxes become those of
the leaf lanes, and from the last node to the first inner lanes follow, because children stand behind their parents.
Threads take parts until none is left; what a part gets depends on nothing else. Lanes whose children are in other parts
stay for a last sweep, and so do those of nodes above them. Elements are a loop of their own without a branch that is
hard to guess, so that the next pack's loads begin while a pack is still worked on. All arguments are addresses.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.constants import (
    INDEXED_PACK_SIZE,
    NODE_SIZE,
    PRIMITIVE_BITS,
    TRIANGLE_PACK_SIZE,
    UNUSED_LANE,
)
from rtviewer.kernels.exact_cost import WIDTH
from rtviewer.kernels.memory import (
    add_i64,
    load_f32,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    store_f32,
    store_i32,
    store_i64,
    store_u8,
)
from rtviewer.kernels.refit_lanes import (
    ELEMENT_SIZE,
    SCAN_SIZE,
    SCAN_WORDS,
    IDS_AHEAD,
    fetch_ahead,
    is_in_row,
    join_child,
    leaf_lanes,
    list_leaves,
    refit_pack,
    scan_words,
)

SOURCE_NODES, TARGET_NODES, SOURCE_PACKS, TARGET_PACKS = 0, 8, 16, 24
ROWS, ROW_COUNT, INDEX_ROWS, VERTEX_ROWS, NODE_COUNT, JOINED = 32, 40, 48, 56, 64, 72
GRAIN, NEXT_PART, DOUBTFUL, DOUBTFUL_COUNT = 80, 88, 96, 104
WORK_SIZE = 112
"""Offsets of int64 in what all threads of an update share: addresses, the number of geometry rows, for indexed packs
the sections of corners (INDEX_ROWS is 0 when corners stand in the packs), the number of nodes, the address of a byte
for each (see ``join_children``), the nodes of a part, the next part that nobody has taken; the address of room for four
int32 a pack, which receives the lanes that may be degenerate or not finite in any order, four times the pack's index
plus the lane, and how many there are."""
CHILDREN = 192
"""Offset of the eight references in a node."""
ROW_FIRST, ROW_END, ROW_VERTICES, ROW_INDICES, ROW_FLAGS = 0, 8, 16, 24, 32
ROW_SIZE = 40
"""Offsets of int64 in a geometry row: its primitives' numbers, the addresses of vertices (three float32) and of indices
(three uint32), the flag bits of its pack lanes."""

LANE_POINTS, LANE_VERTICES = 0, 144
LANE_INDICES, LANE_IDENTITIES, LANE_ROW = LANE_VERTICES + 144, LANE_VERTICES + 192, LANE_VERTICES + 208
PART_PACKS = 448
"""Offsets in the room that one thread works in: the corners of a pack; then vertices, indices, ids and a geometry row
for a pack whose triangles are of several geometries; then the packs of a part (int32), their boxes (ELEMENT_SIZE each),
and the children of its nodes with leaves renumbered by that list."""


def room_size(grain: int) -> int:
    """Bytes that a thread needs for parts of ``grain`` nodes, a multiple of 64."""
    most = 4 * WIDTH * grain
    return -(-(PART_PACKS + 4 * (most + IDS_AHEAD) + ELEMENT_SIZE * most + 4 * WIDTH * grain) // 64) * 64


@jit
def element_bounds(identities, stride, count, bounds, out):
    """Union of the boxes of the primitives in each of ``count`` leaf elements.

    ``identities``: address of the first element's four ids, ``stride`` bytes from one to the next; ``bounds``: of boxes
    of six float32, one a primitive; ``out``: where the elements' boxes go (ELEMENT_SIZE each).
    """
    for element in range(count):
        to = out + ELEMENT_SIZE * element
        for axis in range(3):
            low, high = np.float32(np.inf), np.float32(-np.inf)
            for lane in range(4):
                identity = load_i32(identities + stride * element + 4 * lane)
                if identity != UNUSED_LANE:
                    box = bounds + 24 * np.int64(identity & PRIMITIVE_BITS) + 4 * axis
                    low, high = min(low, load_f32(box)), max(high, load_f32(box + 12))
            store_f32(to + 4 * axis, low)
            store_f32(to + 4 * axis + 16, high)


@jit
def element_leaves(nodes, count, elements):
    """New boxes in the leaf lanes of nodes from those of all leaf elements."""
    for node in range(count):
        at = nodes + NODE_SIZE * node
        leaf_lanes(at, at, at + CHILDREN, elements)


@jit
def join_children(nodes, first, last, joined):
    """Boxes of inner lanes of a range of nodes from the nodes below them, as far as those stand before ``last`` too.

    ``joined``: of a byte for each node, other than 0 where it is done; it becomes so for nodes whose lanes are all new.
    """
    for node in range(last - 1, first - 1, -1):
        if load_u8(joined + node) != 0:
            continue
        at, complete = nodes + NODE_SIZE * node, True
        for lane in range(WIDTH):
            child = np.int64(load_i32(at + CHILDREN + 4 * lane))
            if child <= 0:
                continue
            if child < last and load_u8(joined + child) != 0:
                join_child(nodes + NODE_SIZE * child, at + 4 * lane)
            else:
                complete = False
        if complete:
            store_u8(joined + node, np.uint8(1))


@jit
def refit_parts(work, room):
    """Parts of the nodes, until all are taken: packs, leaf lanes, and what can be known of the inner lanes.

    ``work``: see WORK_SIZE, ``room``: ``room_size`` bytes.
    """
    source, target, joined = load_i64(work + SOURCE_NODES), load_i64(work + TARGET_NODES), load_i64(work + JOINED)
    count, grain = load_i64(work + NODE_COUNT), load_i64(work + GRAIN)
    packs = room + PART_PACKS
    elements = packs + 4 * (4 * WIDTH * grain + IDS_AHEAD)
    leaves = elements + ELEMENT_SIZE * 4 * WIDTH * grain
    first = grain * add_i64(work + NEXT_PART, 1)
    while first < count:
        last, listed = min(first + grain, count), 0
        for node in range(first, last):
            listed = list_leaves(source + NODE_SIZE * node, listed, packs, leaves + 4 * WIDTH * (node - first))
        triangle_packs(work, packs, listed, elements, room)
        for node in range(first, last):
            at = NODE_SIZE * node
            leaf_lanes(source + at, target + at, leaves + 4 * WIDTH * (node - first), elements)
            store_u8(joined + node, np.uint8(0))
        join_children(target, first, last, joined)
        first = grain * add_i64(work + NEXT_PART, 1)


@jit
def row_of(rows, count, identity, row):
    """The address of the geometry row that the pack id at ``identity`` is in; ``row``: the one to try first."""
    number = np.int64(load_i32(identity) & PRIMITIVE_BITS)
    if load_i64(row + ROW_FIRST) <= number < load_i64(row + ROW_END):
        return row
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) >> 1
        if number < load_i64(rows + ROW_SIZE * middle + ROW_END):
            high = middle
        else:
            low = middle + 1
    return rows + ROW_SIZE * low


@jit
def triangle_packs(work, packs, count, elements, scratch):
    """Write packs from moved vertices, and their boxes one after the other.

    ``work``: see WORK_SIZE; ``packs``: ``count`` int32, and behind them room for IDS_AHEAD more; ``scratch``:
    PART_PACKS bytes.
    """
    source, target = load_i64(work + SOURCE_PACKS), load_i64(work + TARGET_PACKS)
    rows, row_count, row = load_i64(work + ROWS), load_i64(work + ROW_COUNT), load_i64(work + ROWS)
    indexed = load_i64(work + INDEX_ROWS) != 0
    size = INDEXED_PACK_SIZE if indexed else TRIANGLE_PACK_SIZE
    source_ids, target_ids = source + size - 16, target + size - 16
    for number in range(count, count + IDS_AHEAD):
        store_i32(packs + 4 * number, load_i32(packs))
    for number in range(count):
        at = packs + 4 * number
        pack = np.int64(load_i32(at))
        ids, new_ids = source_ids + pack * size, target_ids + pack * size
        out = scratch + LANE_POINTS if indexed else target + pack * size
        element = elements + ELEMENT_SIZE * number
        fetch_ahead(at, source_ids, target, size, row)
        if row_count != 1:
            row = row_of(rows, row_count, ids, row)
        if row_count == 1 or is_in_row(ids, row):
            mask = refit_pack(ids, row, out, new_ids, element)
        else:
            gather_pack(ids, rows, row_count, new_ids, scratch)
            mask = refit_pack(scratch + LANE_IDENTITIES, scratch + LANE_ROW, out, scratch + LANE_IDENTITIES, element)
        if indexed:
            write_vertices(work, new_ids, scratch)
        while mask != 0:
            place = load_i64(work + DOUBTFUL) + 4 * add_i64(work + DOUBTFUL_COUNT, 1)
            lane = np.int64(0)
            while not mask >> np.uint32(lane) & np.uint32(1):
                lane += 1
            store_i32(place, np.int32(4 * pack + lane))
            mask &= mask - np.uint32(1)


@jit
def gather_pack(identities, rows, row_count, new_identities, scratch):
    """Make the triangles of a pack with several geometries look like the first four of one, with its own vertices."""
    row = rows
    for lane in range(4):
        identity = load_i32(identities + 4 * lane)
        fake = np.int32(UNUSED_LANE)
        if identity != UNUSED_LANE:
            row = row_of(rows, row_count, identities + 4 * lane, row)
            number, fake = np.int64(identity & PRIMITIVE_BITS), np.int32(lane)
            identity = np.int32(number | load_i64(row + ROW_FLAGS))
            indices = load_i64(row + ROW_INDICES) + 12 * (number - load_i64(row + ROW_FIRST))
            for corner in range(3):
                vertex = load_i64(row + ROW_VERTICES) + 12 * np.int64(load_u32(indices + 4 * corner))
                to = scratch + LANE_VERTICES + 12 * (3 * lane + corner)
                for axis in range(3):
                    store_f32(to + 4 * axis, load_f32(vertex + 4 * axis))
        for corner in range(3):
            store_i32(scratch + LANE_INDICES + 4 * (3 * lane + corner), np.int32(3 * lane + corner))
        store_i32(new_identities + 4 * lane, identity)
        store_i32(scratch + LANE_IDENTITIES + 4 * lane, fake)
    store_i64(scratch + LANE_ROW + ROW_FIRST, np.int64(0))
    store_i64(scratch + LANE_ROW + ROW_VERTICES, scratch + LANE_VERTICES)
    store_i64(scratch + LANE_ROW + ROW_INDICES, scratch + LANE_INDICES)
    store_i64(scratch + LANE_ROW + ROW_FLAGS, np.int64(0))


@jit
def write_vertices(work, identities, scratch):
    """Put the corners of a pack into the vertex section, where its index rows say."""
    for lane in range(4):
        identity = load_i32(identities + 4 * lane)
        if identity == UNUSED_LANE:
            continue
        index_row = load_i64(work + INDEX_ROWS) + 12 * np.int64(identity & PRIMITIVE_BITS)
        for corner in range(3):
            to = load_i64(work + VERTEX_ROWS) + 12 * np.int64(load_u32(index_row + 4 * corner))
            for axis in range(3):
                store_f32(to + 4 * axis, load_f32(scratch + LANE_POINTS + 48 * corner + 16 * axis + 4 * lane))


@jit
def scan(words, count, state):
    """Hash ``count`` uint32 and find the largest; ``state``: SCAN_SIZE zero bytes and room for a step's words."""
    whole = count // SCAN_WORDS
    for step in range(whole):
        scan_words(words + 4 * SCAN_WORDS * step, state)
    rest = state + SCAN_SIZE
    for word in range(SCAN_WORDS):
        at = whole * SCAN_WORDS + word
        store_i32(rest + 4 * word, load_i32(words + 4 * at) if at < count else np.int32(0))
    scan_words(rest, state)
