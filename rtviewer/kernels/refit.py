"""New boxes for an old tree.

A part is a range of nodes with all their leaves: its leaf elements are listed and written, and their boxes go into the
nodes, from the last to the first because children stand behind their parents. Threads take parts until none is left;
what a part gets depends on nothing else. Lanes whose children are in other parts stay for a last sweep, and so do those
of nodes above them. Elements are a loop of their own without a branch that is
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
from rtviewer.kernels.extremes import largest, least
from rtviewer.kernels.memory import (
    add_i64,
    load_f32,
    load_i32,
    load_i64,
    store_f32,
    store_i32,
    store_i64,
)
from rtviewer.kernels.refit_corners import gather_pack, note_lanes, write_vertices
from rtviewer.kernels.refit_lanes import (
    ELEMENT_SIZE,
    IDS_AHEAD,
    SCAN_SIZE,
    SCAN_WORDS,
    fetch_ahead,
    is_in_row,
    list_leaves,
    node_lanes,
    refit_pack,
    scan_words,
    union_of_lanes,
)
from rtviewer.kernels.refit_state import (
    BOXES,
    GRAIN,
    INDEX_ROWS,
    LANE_IDENTITIES,
    LANE_POINTS,
    LANE_ROW,
    LANE_ROWS,
    NEXT_PART,
    NODE_COUNT,
    PART_PACKS,
    ROW_COUNT,
    ROW_END,
    ROW_FIRST,
    ROW_SIZE,
    ROWS,
    SOURCE_NODES,
    SOURCE_PACKS,
    TARGET_NODES,
    TARGET_PACKS,
)

CHILDREN = 192
"""Offset of the eight references in a node."""


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
                    low, high = least(low, load_f32(box)), largest(high, load_f32(box + 12))
            store_f32(to + 4 * axis, low)
            store_f32(to + 4 * axis + 16, high)


@jit
def element_nodes(nodes, count, elements, boxes):
    """New boxes in all lanes of nodes from those of all leaf elements; ``boxes``: room for ELEMENT_SIZE a node."""
    for node in range(count - 1, -1, -1):
        at = nodes + NODE_SIZE * node
        node_lanes(at, at, at + CHILDREN, elements, boxes, count, boxes + ELEMENT_SIZE * node)


@jit
def join_parts(nodes, count, boxes):
    """New boxes in the inner lanes of nodes whose own in ``boxes`` are not known yet, from the last to the first."""
    for node in range(count - 1, -1, -1):
        box = boxes + ELEMENT_SIZE * node
        if load_f32(box + 28) == 0:
            continue
        at = nodes + NODE_SIZE * node
        for lane in range(WIDTH):
            child = np.int64(load_i32(at + CHILDREN + 4 * lane))
            if child > 0:
                for axis in range(3):
                    below = boxes + ELEMENT_SIZE * child + 4 * axis
                    store_f32(at + 64 * axis + 4 * lane, load_f32(below))
                    store_f32(at + 64 * axis + 32 + 4 * lane, load_f32(below + 16))
        union_of_lanes(at, box)


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
def refit_parts(work, room):
    """Parts of the nodes, until all are taken: packs, leaf lanes, and what can be known of the inner lanes.

    ``work``: the block that threads share (``refit_state``), ``room``: ``room_size`` bytes of this one's. One function,
    because what a function calls is compiled again into it.
    """
    source, target, boxes = load_i64(work + SOURCE_NODES), load_i64(work + TARGET_NODES), load_i64(work + BOXES)
    old_packs, new_packs = load_i64(work + SOURCE_PACKS), load_i64(work + TARGET_PACKS)
    rows, row_count, row = load_i64(work + ROWS), load_i64(work + ROW_COUNT), load_i64(work + ROWS)
    indexed = load_i64(work + INDEX_ROWS) != 0
    size = INDEXED_PACK_SIZE if indexed else TRIANGLE_PACK_SIZE
    old_ids, new_ids = old_packs + size - 16, new_packs + size - 16
    count, grain = load_i64(work + NODE_COUNT), load_i64(work + GRAIN)
    packs = room + PART_PACKS
    elements = packs + 4 * (4 * WIDTH * grain + IDS_AHEAD)
    leaves = elements + ELEMENT_SIZE * 4 * WIDTH * grain
    first = grain * add_i64(work + NEXT_PART, 1)
    while first < count:
        last, listed = least(first + grain, count), 0
        for node in range(first, last):
            listed = list_leaves(source + NODE_SIZE * node, listed, packs, leaves + 4 * WIDTH * (node - first))
        for number in range(listed, listed + IDS_AHEAD):
            store_i32(packs + 4 * number, load_i32(packs))
        for number in range(listed):
            at, element = packs + 4 * number, elements + ELEMENT_SIZE * number
            offset = np.int64(load_i32(at)) * size
            ids = old_ids + offset
            out = room + LANE_POINTS if indexed else new_packs + offset
            fetch_ahead(at, old_ids, new_packs, size, row)
            if row_count != 1:
                row = row_of(rows, row_count, ids, row)
            if row_count == 1 or is_in_row(ids, row):
                mask = refit_pack(ids, row, out, new_ids + offset, element)
            else:
                for lane in range(4):
                    store_i64(room + LANE_ROWS + 8 * lane, row_of(rows, row_count, ids + 4 * lane, row))
                gather_pack(ids, new_ids + offset, room)
                mask = refit_pack(room + LANE_IDENTITIES, room + LANE_ROW, out, room + LANE_IDENTITIES, element)
            if indexed:
                write_vertices(new_ids + offset, room + LANE_POINTS, work)
            if mask != 0:
                note_lanes(load_i32(at), mask, work)
        for node in range(last - 1, first - 1, -1):
            at, own = NODE_SIZE * node, leaves + 4 * WIDTH * (node - first)
            node_lanes(source + at, target + at, own, elements, boxes, last, boxes + ELEMENT_SIZE * node)
        first = grain * add_i64(work + NEXT_PART, 1)


@jit
def scan(words, count, state):
    """Hash ``count`` uint32 and find the largest; ``state``: SCAN_SIZE zero bytes and room for a step's words."""
    whole = count // SCAN_WORDS
    scan_words(words, whole, state)
    rest = state + SCAN_SIZE
    for word in range(SCAN_WORDS):
        at = whole * SCAN_WORDS + word
        store_i32(rest + 4 * word, load_i32(words + 4 * at) if at < count else np.int32(0))
    scan_words(rest, 1, state)
