"""Direct eight-wide builder (wide nodes as in Wald, Benthin, Boulos 2008).

A node takes a range of references, splits the largest part again and again until it has eight, and each part becomes a
leaf or another node. How a range is split is in ``cuts``.

Bytes are bounded by construction. Every range knows its exact cost (``exact_cost``). A cut by area is taken while the
surplus it costs over that fits into the budget; when it does not, the range is cut exactly, which costs nothing more.
So a build can run out of budget, never over it.

References (see ``references``) are permuted in place, so that a leaf is a range. Ranges of different calls are
disjoint: calls may run in parallel, and the result depends on the input only. ``keys`` (n,) uint64 are Morton codes in
order where ``method`` is MORTON, else (0,).
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.cuts import BINS, SWEEP_LIMIT, cut_exactly, split
from rtviewer.kernels.exact_cost import MOST_ELEMENTS, NODE_BYTES, WIDTH, node_cost, parts_cost
from rtviewer.kernels.references import clamped, half_area, measure


@jit
def split_node(
    bounds, ids, keys, method, first, last, leaf_size, pack_width, parts, boxes, bin_boxes, bin_counts, right_costs
):
    """Cut a range into up to eight parts; returns how many.

    ``parts`` (8, 2) int64 receives the ranges, ``boxes`` (8, 6) float64 their bounds. The part with the largest area
    among those that are too large for a leaf is cut first; once none is, those with more than one pack.
    """
    parts[0, 0], parts[0, 1] = first, last
    measure(bounds, first, last, boxes[0])
    number = 1
    while number < WIDTH:
        chosen, largest, chosen_is_large = -1, -1.0, False
        for k in range(number):
            size = parts[k, 1] - parts[k, 0]
            if size <= pack_width:
                continue
            large = size > leaf_size
            area = half_area(boxes[k])
            if (large and not chosen_is_large) or (large == chosen_is_large and area > largest):
                chosen, largest, chosen_is_large = k, area, large
        if chosen < 0:
            break
        middle = split(
            bounds, ids, keys, method, parts[chosen, 0], parts[chosen, 1], pack_width,
            bin_boxes, bin_counts, right_costs,
        )  # fmt: skip
        parts[number, 0], parts[number, 1] = middle, parts[chosen, 1]
        parts[chosen, 1] = middle
        measure(bounds, parts[chosen, 0], parts[chosen, 1], boxes[chosen])
        measure(bounds, parts[number, 0], parts[number, 1], boxes[number])
        number += 1
    return number


@jit
def exact_bounds(bounds, first, last, nodes, node, lane):
    """Write a lane's bounds: the float32 union of its references, infinities kept."""
    for axis in range(3):
        low, high = np.float32(np.inf), np.float32(-np.inf)
        for reference in range(first, last):
            low = min(low, bounds[reference, axis])
            high = max(high, bounds[reference, axis + 3])
        nodes[node, 16 * axis + lane] = low
        nodes[node, 16 * axis + 8 + lane] = high


@jit
def clear_node(nodes, children, node):
    for lane in range(WIDTH):
        for axis in range(3):
            nodes[node, 16 * axis + lane] = np.float32(np.inf)
            nodes[node, 16 * axis + 8 + lane] = np.float32(-np.inf)
        children[node, 48 + lane] = 0


@jit
def write_order(nodes, children, node, number):
    """The octant orders of a node: for each octant of directions, its lanes from far to near by box centre."""
    order = np.empty(WIDTH, np.int64)
    for rank in range(WIDTH):
        children[node, 56 + rank] = 0
    for octant in range(8):
        for lane in range(WIDTH):
            order[lane] = lane
        for i in range(1, number):
            lane = order[i]
            key = octant_key(nodes, node, lane, octant)
            k = i
            while k > 0 and octant_key(nodes, node, order[k - 1], octant) < key:
                order[k] = order[k - 1]
                k -= 1
            order[k] = lane
        for rank in range(WIDTH):
            children[node, 56 + rank] |= np.int32(order[rank] << (3 * octant))


@jit
def octant_key(nodes, node, lane, octant):
    """How far along the octant's diagonal a lane's centre is; bit k of ``octant``: component k is positive."""
    key = 0.0
    for axis in range(3):
        centre = clamped(nodes[node, 16 * axis + lane]) + clamped(nodes[node, 16 * axis + 8 + lane])
        key += centre if octant >> axis & 1 else -centre
    return key


@jit
def cut_within(
    bounds, ids, keys, method, first, last, leaf_size, pack_width, element_size, slack, parts, boxes,
    bin_boxes, bin_counts, right_costs,
):  # fmt: skip
    """Cut a range into a node's parts by area if the surplus fits into ``slack``, else exactly.

    Returns (parts, slack left).
    """
    exact = node_cost(last - first, pack_width, element_size)
    number = split_node(
        bounds,
        ids,
        keys,
        method,
        first,
        last,
        leaf_size,
        pack_width,
        parts,
        boxes,
        bin_boxes,
        bin_counts,
        right_costs,
    )
    surplus = parts_cost(parts, number, leaf_size, pack_width, element_size) - exact
    if surplus > slack:
        number = cut_exactly(bounds, ids, method, first, last, pack_width, parts)
        surplus = parts_cost(parts, number, leaf_size, pack_width, element_size) - exact
    return number, slack - surplus


@jit
def is_leaf(count, leaf_size, pack_width, element_size, slack):
    """Whether a part becomes a leaf: when it is small, or when there is no room left for a node that it could do
    without."""
    if count <= leaf_size:
        return True
    packs = (count + pack_width - 1) // pack_width
    return packs <= MOST_ELEMENTS and slack < NODE_BYTES


@jit
def build_range(
    bounds, ids, keys, method, first, last, leaf_size, pack_width, element_size, budget, nodes, children, packs, cancel
):
    """Build the subtree of a range; returns (nodes, leaf elements, levels), or zeros when cancelled.

    ``budget``: bytes that nodes and leaf elements may take, at least ``node_cost`` of the range.
    ``nodes`` (capacity, 64) float32 and ``children``, the same memory as int32, receive nodes from row 0, parents
    before children. ``packs`` (capacity, 2) int32 receives the range of references of each leaf element, from row 0.
    ``cancel`` (1,) uint8: not 0 asks to stop.
    """
    bin_boxes = np.empty((3, BINS, 6), np.float64)
    bin_counts = np.empty((3, BINS), np.int64)
    right_costs = np.empty(max(BINS, SWEEP_LIMIT), np.float64)
    parts = np.empty((WIDTH, 2), np.int64)
    boxes = np.empty((WIDTH, 6), np.float64)
    pending = np.empty((last - first + 2, 4), np.int64)  # node, first, last, level
    pending[0, 0], pending[0, 1], pending[0, 2], pending[0, 3] = 0, first, last, 1
    waiting, node_count, pack_count, levels = 1, 1, 0, 0
    slack = budget - node_cost(last - first, pack_width, element_size)
    while waiting > 0:
        if cancel[0] != 0:
            return 0, 0, 0
        waiting -= 1
        node, begin, end = pending[waiting, 0], pending[waiting, 1], pending[waiting, 2]
        level = pending[waiting, 3]
        levels = max(levels, level)
        number, slack = cut_within(
            bounds, ids, keys, method, begin, end, leaf_size, pack_width, element_size, slack, parts, boxes,
            bin_boxes, bin_counts, right_costs,
        )  # fmt: skip
        clear_node(nodes, children, node)
        for lane in range(number):
            exact_bounds(bounds, parts[lane, 0], parts[lane, 1], nodes, node, lane)
            size = parts[lane, 1] - parts[lane, 0]
            if is_leaf(size, leaf_size, pack_width, element_size, slack):
                children[node, 48 + lane] = leaf_reference(pack_count, (size + pack_width - 1) // pack_width)
                pack_count = write_leaf(packs, pack_count, parts[lane, 0], parts[lane, 1], pack_width)
                continue
            if (size + pack_width - 1) // pack_width <= MOST_ELEMENTS:
                slack -= NODE_BYTES  # it could have been a leaf
            children[node, 48 + lane] = node_count
            pending[waiting, 0], pending[waiting, 1] = node_count, parts[lane, 0]
            pending[waiting, 2], pending[waiting, 3] = parts[lane, 1], level + 1
            waiting += 1
            node_count += 1
        write_order(nodes, children, node, number)
    return node_count, pack_count, levels


@jit
def leaf_reference(first_element, element_count):
    return ~(first_element << 2 | (element_count - 1))


@jit
def write_leaf(packs, pack_count, first, last, pack_width):
    """Append the leaf elements of a range; returns the new number of elements."""
    for begin in range(first, last, pack_width):
        packs[pack_count, 0] = begin
        packs[pack_count, 1] = min(begin + pack_width, last)
        pack_count += 1
    return pack_count


@jit
def build_top_node(bounds, ids, keys, method, first, last, leaf_size, pack_width, element_size, slack, parts):
    """One node's parts, for the levels that Python distributes over threads; returns (parts, slack left)."""
    bin_boxes = np.empty((3, BINS, 6), np.float64)
    bin_counts = np.empty((3, BINS), np.int64)
    right_costs = np.empty(max(BINS, SWEEP_LIMIT), np.float64)
    boxes = np.empty((WIDTH, 6), np.float64)
    return cut_within(
        bounds, ids, keys, method, first, last, leaf_size, pack_width, element_size, slack, parts, boxes,
        bin_boxes, bin_counts, right_costs,
    )  # fmt: skip


@jit
def write_top_node(bounds, parts, number, references, nodes, children, node):
    """Write a node whose children Python has numbered. ``references`` (8,) int32."""
    clear_node(nodes, children, node)
    for lane in range(number):
        exact_bounds(bounds, parts[lane, 0], parts[lane, 1], nodes, node, lane)
        children[node, 48 + lane] = references[lane]
    write_order(nodes, children, node, number)


@jit
def relocate(children, count, node_base, pack_base, out):
    """Copy the nodes of a subtree (as int32 rows) to where they end up, moving their references along."""
    for node in range(count):
        for word in range(64):
            out[node, word] = children[node, word]
        for lane in range(WIDTH):
            ref = children[node, 48 + lane]
            if ref > 0:
                out[node, 48 + lane] = ref + node_base
            elif ref < 0:
                out[node, 48 + lane] = ~(~ref + (pack_base << 2))
