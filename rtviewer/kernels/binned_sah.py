"""Direct eight-wide builder by binned surface area heuristic (Wald 2007; wide nodes as in Wald, Benthin, Boulos 2008).

A node takes a range of references, splits the largest part again and again until it has eight, and each part becomes a
leaf or another node. Cost counts packs, not primitives, because a pack is tested in one step. Areas and centroids are
float64, so that coordinates near the end of float32 neither overflow nor turn into NaN.

Bytes are bounded by construction. Every range knows its exact cost: what it takes when it is cut into eight nearly
equal parts at multiples of a pack, all the way down (``exact_cost``). A cut by area is taken while the surplus it
costs over that fits into the budget; when it does not, the range is cut exactly, which costs nothing more. So a build
can run out of budget, never over it.

References are ``bounds`` (n, 6) float32 (minimum, maximum) and ``ids`` (n,) int32, permuted in place, so that a leaf
is a range. Ranges of different calls are disjoint: calls may run in parallel, and the result depends on the input
only.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.exact_cost import MOST_ELEMENTS, NODE_BYTES, WIDTH, node_cost, parts_cost

BINS = 32
LARGEST = 3.0e38
"""Infinite bounds count as this when splits are chosen; nodes keep them infinite (INA-8)."""


@jit
def clamped(value):
    return min(max(np.float64(value), -LARGEST), LARGEST)


@jit
def half_area(box):
    """Half the surface of ``box`` (6,) float64, 0 for an empty one."""
    x, y, z = box[3] - box[0], box[4] - box[1], box[5] - box[2]
    if not (x >= 0.0 and y >= 0.0 and z >= 0.0):
        return 0.0
    return x * y + y * z + z * x


@jit
def clear_box(box):
    for axis in range(3):
        box[axis] = np.inf
        box[axis + 3] = -np.inf


@jit
def grow_by_box(box, other):
    for axis in range(3):
        box[axis] = min(box[axis], other[axis])
        box[axis + 3] = max(box[axis + 3], other[axis + 3])


@jit
def grow_by_reference(box, bounds, reference):
    for axis in range(3):
        box[axis] = min(box[axis], clamped(bounds[reference, axis]))
        box[axis + 3] = max(box[axis + 3], clamped(bounds[reference, axis + 3]))


@jit
def centroid(bounds, reference, axis):
    """Twice the centre of a reference's box."""
    return clamped(bounds[reference, axis]) + clamped(bounds[reference, axis + 3])


@jit
def measure(bounds, first, last, box):
    """The union of a range of references into ``box`` (6,) float64."""
    clear_box(box)
    for reference in range(first, last):
        grow_by_reference(box, bounds, reference)


@jit
def swap(bounds, ids, a, b):
    for k in range(6):
        bounds[a, k], bounds[b, k] = bounds[b, k], bounds[a, k]
    ids[a], ids[b] = ids[b], ids[a]


@jit
def bin_of(value, low, scale, bins):
    return min(max(np.int64((value - low) * scale), 0), bins - 1)


@jit
def best_split(bounds, first, last, pack_width, bin_boxes, bin_counts, right_costs):
    """(axis, bin, low, scale, bins): the cheapest plane; axis -1 when all centroids coincide."""
    bins = min(BINS, 4 + (last - first) // 16)
    low = np.empty(3, np.float64)
    scale = np.zeros(3, np.float64)
    box = np.empty(6, np.float64)
    for axis in range(3):
        smallest, largest = np.inf, -np.inf
        for reference in range(first, last):
            c = centroid(bounds, reference, axis)
            smallest, largest = min(smallest, c), max(largest, c)
        low[axis] = smallest
        if largest > smallest:
            scale[axis] = bins / (largest - smallest)
            if not (scale[axis] < np.inf):
                scale[axis] = 0.0
        for b in range(bins):
            clear_box(bin_boxes[axis, b])
            bin_counts[axis, b] = 0
    for reference in range(first, last):
        for axis in range(3):
            if scale[axis] > 0.0:
                b = bin_of(centroid(bounds, reference, axis), low[axis], scale[axis], bins)
                grow_by_reference(bin_boxes[axis, b], bounds, reference)
                bin_counts[axis, b] += 1
    best_axis, best_bin, best_cost = -1, 0, np.inf
    for axis in range(3):
        if scale[axis] == 0.0:
            continue
        clear_box(box)
        number = 0
        for b in range(bins - 1, 0, -1):
            grow_by_box(box, bin_boxes[axis, b])
            number += bin_counts[axis, b]
            right_costs[b] = half_area(box) * ((number + pack_width - 1) // pack_width)
        clear_box(box)
        number = 0
        for b in range(1, bins):
            grow_by_box(box, bin_boxes[axis, b - 1])
            number += bin_counts[axis, b - 1]
            cost = half_area(box) * ((number + pack_width - 1) // pack_width) + right_costs[b]
            if 0 < number < last - first and cost < best_cost:
                best_axis, best_bin, best_cost = axis, b, cost
    if best_axis < 0:
        return -1, 0, 0.0, 0.0, bins
    return best_axis, best_bin, low[best_axis], scale[best_axis], bins


@jit
def split(bounds, ids, first, last, pack_width, bin_boxes, bin_counts, right_costs):
    """Partition a range in place; returns the first reference of the right part, strictly inside the range."""
    axis, plane, low, scale, bins = best_split(bounds, first, last, pack_width, bin_boxes, bin_counts, right_costs)
    if axis < 0:
        return (first + last) >> 1
    left, right = first, last - 1
    while True:
        while left <= right and bin_of(centroid(bounds, left, axis), low, scale, bins) < plane:
            left += 1
        while left <= right and bin_of(centroid(bounds, right, axis), low, scale, bins) >= plane:
            right -= 1
        if left >= right:
            break
        swap(bounds, ids, left, right)
        left += 1
        right -= 1
    return left


@jit
def split_node(bounds, ids, first, last, leaf_size, pack_width, parts, boxes, bin_boxes, bin_counts, right_costs):
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
        middle = split(bounds, ids, parts[chosen, 0], parts[chosen, 1], pack_width, bin_boxes, bin_counts, right_costs)
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
def select(bounds, ids, first, last, position, axis):
    """Reorder a range so that centroids before ``position`` are not larger than those from it on (quickselect)."""
    while last - first > 1:
        a, b = centroid(bounds, first, axis), centroid(bounds, last - 1, axis)
        c = centroid(bounds, (first + last) >> 1, axis)
        pivot = max(min(a, b), min(max(a, b), c))
        below, at, above = first, first, last
        while at < above:
            value = centroid(bounds, at, axis)
            if value < pivot:
                swap(bounds, ids, below, at)
                below += 1
                at += 1
            elif value > pivot:
                above -= 1
                swap(bounds, ids, at, above)
            else:
                at += 1
        if position < below:
            last = below
        elif position >= above:
            first = above
        else:
            return


@jit
def largest_axis(bounds, first, last):
    """The axis along which the centroids of a range spread most."""
    best, spread = 0, -1.0
    for axis in range(3):
        low, high = np.inf, -np.inf
        for reference in range(first, last):
            value = centroid(bounds, reference, axis)
            low, high = min(low, value), max(high, value)
        if high - low > spread:
            best, spread = axis, high - low
    return best


@jit
def cut_exactly(bounds, ids, first, last, pack_width, parts):
    """Cut a range into up to eight parts of nearly equal numbers of whole packs, by medians; returns how many."""
    packs = (last - first + pack_width - 1) // pack_width
    edges = np.empty(WIDTH + 1, np.int64)
    for k in range(WIDTH + 1):
        edges[k] = min(first + (k * (packs // WIDTH) + min(k, packs % WIDTH)) * pack_width, last)
    step = WIDTH
    while step > 1:
        for k in range(0, WIDTH, step):
            begin, middle, end = edges[k], edges[k + step // 2], edges[k + step]
            if begin < middle < end:
                select(bounds, ids, begin, end, middle, largest_axis(bounds, begin, end))
        step //= 2
    number = 0
    for k in range(WIDTH):
        if edges[k + 1] > edges[k]:
            parts[number, 0], parts[number, 1] = edges[k], edges[k + 1]
            number += 1
    return number


@jit
def cut_within(
    bounds, ids, first, last, leaf_size, pack_width, element_size, slack, parts, boxes,
    bin_boxes, bin_counts, right_costs,
):  # fmt: skip
    """Cut a range into a node's parts by area if the surplus fits into ``slack``, else exactly.

    Returns (parts, slack left).
    """
    exact = node_cost(last - first, pack_width, element_size)
    number = split_node(
        bounds, ids, first, last, leaf_size, pack_width, parts, boxes, bin_boxes, bin_counts, right_costs
    )
    surplus = parts_cost(parts, number, leaf_size, pack_width, element_size) - exact
    if surplus > slack:
        number = cut_exactly(bounds, ids, first, last, pack_width, parts)
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
def build_range(bounds, ids, first, last, leaf_size, pack_width, element_size, budget, nodes, children, packs, cancel):
    """Build the subtree of a range; returns (nodes, leaf elements, levels), or zeros when cancelled.

    ``budget``: bytes that nodes and leaf elements may take, at least ``node_cost`` of the range.
    ``nodes`` (capacity, 64) float32 and ``children``, the same memory as int32, receive nodes from row 0, parents
    before children. ``packs`` (capacity, 2) int32 receives the range of references of each leaf element, from row 0.
    ``cancel`` (1,) uint8: not 0 asks to stop.
    """
    bin_boxes = np.empty((3, BINS, 6), np.float64)
    bin_counts = np.empty((3, BINS), np.int64)
    right_costs = np.empty(BINS, np.float64)
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
            bounds, ids, begin, end, leaf_size, pack_width, element_size, slack, parts, boxes,
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
def build_top_node(bounds, ids, first, last, leaf_size, pack_width, element_size, slack, parts):
    """One node's parts, for the levels that Python distributes over threads; returns (parts, slack left)."""
    bin_boxes = np.empty((3, BINS, 6), np.float64)
    bin_counts = np.empty((3, BINS), np.int64)
    right_costs = np.empty(BINS, np.float64)
    boxes = np.empty((WIDTH, 6), np.float64)
    return cut_within(
        bounds, ids, first, last, leaf_size, pack_width, element_size, slack, parts, boxes,
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
