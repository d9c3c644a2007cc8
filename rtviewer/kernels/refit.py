"""New boxes for an old tree.

First the leaf elements, then the leaf lanes of the nodes: ranges of either may run on different threads, because what
one gets depends on nothing else. Then one sweep over the inner lanes from the last node to the first, because children
stand behind their parents. Elements are a loop of their own without a branch that is hard to guess, so that the next
pack's loads begin while a pack is still worked on. All arguments are addresses.
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
from rtviewer.kernels.memory import load_f32, load_i32, load_i64, load_u32, store_f32, store_i32, store_i64
from rtviewer.kernels.refit_lanes import (
    ELEMENT_SIZE,
    SCAN_SIZE,
    SCAN_WORDS,
    fetch_ahead,
    join_child,
    leaf_lanes,
    refit_pack,
    scan_words,
)

SOURCE_NODES, TARGET_NODES, SOURCE_PACKS, TARGET_PACKS = 0, 8, 16, 24
ROWS, ROW_COUNT, INDEX_ROWS, VERTEX_ROWS, PACK_COUNT, ELEMENTS = 32, 40, 48, 56, 64, 72
WORK_SIZE = 80
"""Offsets of int64 in what all threads of an update share: addresses, the number of geometry rows, for indexed packs
the sections of corners (INDEX_ROWS is 0 when corners stand in the packs), the number of packs, the boxes of the packs
(ELEMENT_SIZE each)."""
AHEAD, NEAR = 16, 8
"""How many packs before its turn the indices of a pack are asked for, and its vertices."""

ROW_FIRST, ROW_END, ROW_VERTICES, ROW_INDICES, ROW_FLAGS = 0, 8, 16, 24, 32
ROW_SIZE = 40
"""Offsets of int64 in a geometry row: its primitives' numbers, the addresses of vertices (three float32) and of indices
(three uint32), the flag bits of its pack lanes."""

LANE_POINTS, LANE_VERTICES = 0, 144
LANE_INDICES, LANE_IDENTITIES, LANE_ROW = LANE_VERTICES + 144, LANE_VERTICES + 192, LANE_VERTICES + 208
SCRATCH_SIZE = LANE_ROW + ROW_SIZE
"""Offsets in the block that one thread works in: the corners of a pack; then vertices, indices, ids and a
geometry row for a pack whose triangles are of several geometries."""


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
def element_leaves(source, target, first, last, elements):
    """Copy a range of nodes, ``source`` to ``target`` (which may be the same), with new boxes in their leaf lanes."""
    for node in range(first, last):
        leaf_lanes(source + NODE_SIZE * node, target + NODE_SIZE * node, elements)


@jit
def join_children(nodes, count):
    """Boxes of all inner lanes from the nodes below them."""
    for node in range(count - 1, -1, -1):
        at = nodes + NODE_SIZE * node
        for lane in range(WIDTH):
            ref = np.int64(load_i32(at + 192 + 4 * lane))
            if ref > 0:
                join_child(nodes + NODE_SIZE * ref, at + 4 * lane)


@jit
def is_inside(number, row):
    return load_i64(row + ROW_FIRST) <= number < load_i64(row + ROW_END)


@jit
def is_in_row(identities, row):
    """Whether all used lanes of a pack are triangles of one geometry."""
    for lane in range(4):
        identity = load_i32(identities + 4 * lane)
        if identity != UNUSED_LANE and not is_inside(np.int64(identity & PRIMITIVE_BITS), row):
            return False
    return True


@jit
def row_of(rows, count, identity, row):
    """The address of the geometry row that the pack id at ``identity`` is in; ``row``: the one to try first."""
    number = np.int64(load_i32(identity) & PRIMITIVE_BITS)
    if is_inside(number, row):
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
def triangle_packs(work, first, last, scratch, doubtful):
    """Write a range of packs and their boxes from moved vertices.

    ``work``: see WORK_SIZE; ``scratch``: SCRATCH_SIZE bytes. ``doubtful``: room for four int32 a pack, which receives
    the lanes that may be degenerate or not finite, four times the pack's index plus the lane; returns how many.
    """
    source, target, elements = load_i64(work + SOURCE_PACKS), load_i64(work + TARGET_PACKS), load_i64(work + ELEMENTS)
    rows, row_count, row = load_i64(work + ROWS), load_i64(work + ROW_COUNT), load_i64(work + ROWS)
    indexed = load_i64(work + INDEX_ROWS) != 0
    size = INDEXED_PACK_SIZE if indexed else TRIANGLE_PACK_SIZE
    last_ids = source + load_i64(work + PACK_COUNT) * size - 16
    count = 0
    for pack in range(first, last):
        ids, new_ids = source + (pack + 1) * size - 16, target + (pack + 1) * size - 16
        out = scratch + LANE_POINTS if indexed else target + pack * size
        element = elements + ELEMENT_SIZE * pack
        fetch_ahead(min(ids + AHEAD * size, last_ids), min(ids + NEAR * size, last_ids), row)
        if row_count != 1:
            row = row_of(rows, row_count, ids, row)
        if row_count == 1 or is_in_row(ids, row):
            mask = refit_pack(ids, row, out, new_ids, element)
        else:
            gather_pack(ids, rows, row_count, new_ids, scratch)
            mask = refit_pack(scratch + LANE_IDENTITIES, scratch + LANE_ROW, out, scratch + LANE_IDENTITIES, element)
        if indexed:
            write_vertices(work, new_ids, scratch)
        if mask != 0:
            for lane in range(4):
                if mask >> np.uint32(lane) & np.uint32(1):
                    store_i32(doubtful + 4 * count, np.int32(4 * pack + lane))
                    count += 1
    return count


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
