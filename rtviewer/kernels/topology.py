"""Direct eight-wide builder (wide nodes as in Wald, Benthin, Boulos 2008): which references share a node or a leaf.

A node takes a range of references, splits the most deserving part again and again until it has eight, and each part
becomes a leaf or another node. How a range is split is in ``cuts``; bytes and boxes are written later (``leaves``).

Bytes are bounded by construction. Every range knows its exact cost (``exact_cost``). A cut by area is taken while the
surplus it costs over that fits into the budget; when it does not, the range is cut exactly, which costs nothing more.
So a build can run out of budget, never over it.

References (see ``references``) are permuted in place, so that a leaf is a range. Ranges of different calls are
disjoint: calls may run in parallel, and the result depends on the input only.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.cuts import FRAMES_AT, HALVES_AT, MORTON, PARTS_AT, cut_exactly, split
from rtviewer.kernels.exact_cost import MOST_ELEMENTS, NODE_BYTES, WIDTH, node_cost, pack_count, part_cost
from rtviewer.kernels.memory import load_i32, load_i64, store_f32, store_i32, store_i64
from rtviewer.kernels.morton import code_difference
from rtviewer.kernels.references import FRAME_BYTES, copy_row, half_area

TOO_LARGE = np.int64(1 << 32)
PENDING_BYTES = 32 + FRAME_BYTES
"""Node, first, end, level, and the frame of the range."""


@jit
def copy_frame(source, target):
    copy_row(source, target)
    copy_row(source + 32, target + 32)


@jit
def set_part(workspace, part, first, end, method, keys, leaf_size, pack_shift):
    """Write a part's range and how much it deserves to be cut, as an integer that is compared without branches: below 0
    with one pack, else the bits of its area or of how far its codes differ, and above those where it is too large for
    a leaf."""
    at = workspace + PARTS_AT + 24 * part
    store_i64(at, first)
    store_i64(at + 8, end)
    if method == MORTON:
        store_f32(at + 16, np.float32(code_difference(keys, first, end)))
    else:
        store_f32(at + 16, half_area(workspace + FRAMES_AT + FRAME_BYTES * part))
    size, merit = end - first, np.int64(load_i32(at + 16))
    merit += TOO_LARGE if size > leaf_size else np.int64(0)
    store_i64(at + 16, merit if size > 1 << pack_shift else np.int64(-1))


@jit
def part_to_cut(workspace, number):
    """The most deserving of the parts that are too large for a leaf; once there are none, of those with more than one
    pack; -1 when there are none of those either."""
    chosen, most = np.int64(-1), np.int64(-1)
    for k in range(number):
        merit = load_i64(workspace + PARTS_AT + 24 * k + 16)
        chosen = k if merit > most else chosen
        most = merit if merit > most else most
    return chosen


@jit
def split_node(references, scratch, keys, method, first, end, leaf_size, pack_shift, workspace):
    """Cut a range into up to eight parts; returns how many.

    The frame of the range is in the workspace's first; the ranges and frames of the parts take its place.
    """
    number, halves = np.int64(0), workspace + HALVES_AT  # a literal would be a type, and a compilation, of its own
    set_part(workspace, number, first, end, method, keys, leaf_size, pack_shift)
    number += 1
    while number < WIDTH:
        chosen = part_to_cut(workspace, number)
        if chosen < 0:
            break
        at, frame = workspace + PARTS_AT + 24 * chosen, workspace + FRAMES_AT + FRAME_BYTES * chosen
        begin, stop = load_i64(at), load_i64(at + 8)
        middle = split(references, scratch, keys, method, begin, stop, pack_shift, frame, workspace)
        if method != MORTON:
            copy_frame(halves, frame)
            copy_frame(halves + FRAME_BYTES, workspace + FRAMES_AT + FRAME_BYTES * number)
        set_part(workspace, chosen, begin, middle, method, keys, leaf_size, pack_shift)
        set_part(workspace, number, middle, stop, method, keys, leaf_size, pack_shift)
        number += 1
    return number


@jit
def parts_cost(workspace, number, leaf_size, pack_shift, element_size, table):
    total = NODE_BYTES
    for k in range(number):
        at = workspace + PARTS_AT + 24 * k
        total += part_cost(load_i64(at + 8) - load_i64(at), leaf_size, pack_shift, element_size, table)
    return total


@jit
def cut_within(
    references, scratch, keys, method, first, end, leaf_size, pack_shift, element_size, table, slack, workspace
):
    """Cut a range into a node's parts by area if the surplus fits into ``slack``, else exactly.

    Returns (parts, slack left).
    """
    exact = node_cost(end - first, pack_shift, element_size, table)
    number = split_node(references, scratch, keys, method, first, end, leaf_size, pack_shift, workspace)
    surplus = parts_cost(workspace, number, leaf_size, pack_shift, element_size, table) - exact
    if surplus > slack:
        number = cut_exactly(references, method, first, end, pack_shift, workspace)
        surplus = parts_cost(workspace, number, leaf_size, pack_shift, element_size, table) - exact
    return number, slack - surplus


@jit
def build_range(
    references, scratch, keys, method, first, end, leaf_size, pack_shift, element_size, table, slack, children, packs,
    pending, workspace, cancel,
):  # fmt: skip
    """Build the subtree of a range; returns (nodes, leaf elements, levels), or zeros when cancelled.

    ``slack``: bytes that nodes and leaf elements may take beyond ``node_cost`` of the range. ``children`` receives
    eight int32 for each node, parents before children: 0 for none, a node > 0, or
    ``~(first element << 2 | elements - 1)``. ``packs`` receives two int32 for each leaf element, its range of
    references. ``pending``: PENDING_BYTES for each range that may wait at the same time. ``cancel``: address of an
    int32 that is not 0 when the build is to stop.
    The workspace's first frame bounds the range. All arguments are int64, addresses but for range, method and sizes.
    """
    waiting, nodes, elements, levels = np.int64(1), np.int64(1), np.int64(0), np.int64(0)
    store_i64(pending, 0)
    store_i64(pending + 8, first)
    store_i64(pending + 16, end)
    store_i64(pending + 24, 1)
    copy_frame(workspace + FRAMES_AT, pending + 32)
    while waiting > 0:
        if load_i32(cancel) != 0:
            return 0, 0, 0
        waiting -= 1
        at = pending + PENDING_BYTES * waiting
        node, begin, stop, level = load_i64(at), load_i64(at + 8), load_i64(at + 16), load_i64(at + 24)
        copy_frame(at + 32, workspace + FRAMES_AT)
        levels = level if level > levels else levels
        number, slack = cut_within(
            references, scratch, keys, method, begin, stop, leaf_size, pack_shift, element_size, table, slack, workspace
        )
        for lane in range(WIDTH):
            place = children + 4 * (WIDTH * node + lane)
            if lane >= number:
                store_i32(place, 0)
                continue
            part = workspace + PARTS_AT + 24 * lane
            begin, stop = load_i64(part), load_i64(part + 8)
            needed = pack_count(stop - begin, pack_shift)
            if stop - begin <= leaf_size or (needed <= MOST_ELEMENTS and slack < NODE_BYTES):
                store_i32(place, ~(elements << 2 | (needed - 1)))
                elements = list_elements(packs, elements, begin, stop, pack_shift)
                continue
            if needed <= MOST_ELEMENTS:
                slack -= NODE_BYTES  # it could have been a leaf
            store_i32(place, nodes)
            at = pending + PENDING_BYTES * waiting
            store_i64(at, nodes)
            store_i64(at + 8, begin)
            store_i64(at + 16, stop)
            store_i64(at + 24, level + 1)
            copy_frame(workspace + FRAMES_AT + FRAME_BYTES * lane, at + 32)
            waiting += 1
            nodes += 1
    return nodes, elements, levels


@jit
def list_elements(packs, elements, first, end, pack_shift):
    """Append the leaf elements of a range; returns the new number of elements."""
    for begin in range(first, end, 1 << pack_shift):
        store_i32(packs + 8 * elements, begin)
        stop = begin + (1 << pack_shift)
        store_i32(packs + 8 * elements + 4, stop if stop < end else end)
        elements += 1
    return elements
