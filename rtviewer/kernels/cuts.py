"""Ways to cut a range of references in two, and the exact cut into eight.

Binned surface area heuristic (Wald 2007) for the default; a full sweep over small ranges on top of it for
PREFER_FAST_TRACE; the highest differing bit of Morton codes (Lauterbach et al. 2009) for PREFER_FAST_BUILD. Cost counts
packs, not primitives, because a pack is tested in one step.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.exact_cost import WIDTH
from rtviewer.kernels.references import (
    centroid,
    clear_box,
    grow_by_box,
    grow_by_reference,
    half_area,
    swap,
)

BINNED = 0
MORTON = 1
SWEEP = 2

BINS = 32
SWEEP_LIMIT = 64
"""Ranges up to this many references are swept."""


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
def split_binned(bounds, ids, first, last, pack_width, bin_boxes, bin_counts, right_costs):
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
def split_sweep(bounds, ids, first, last, pack_width, right_costs):
    """The cheapest of all planes between centroids, on each axis; returns the first reference of the right part."""
    count = last - first
    order = np.empty(count, np.int64)
    box = np.empty(6, np.float64)
    best_axis, best_position, best_cost = -1, 0, np.inf
    for axis in range(3):
        for k in range(count):
            reference = first + k
            value = centroid(bounds, reference, axis)
            at = k
            while at > 0 and centroid(bounds, order[at - 1], axis) > value:
                order[at] = order[at - 1]
                at -= 1
            order[at] = reference
        clear_box(box)
        for k in range(count - 1, 0, -1):
            grow_by_reference(box, bounds, order[k])
            right_costs[k] = half_area(box) * ((count - k + pack_width - 1) // pack_width)
        clear_box(box)
        for k in range(1, count):
            grow_by_reference(box, bounds, order[k - 1])
            cost = half_area(box) * ((k + pack_width - 1) // pack_width) + right_costs[k]
            if cost < best_cost:
                best_axis, best_position, best_cost = axis, k, cost
    if best_axis < 0:
        return (first + last) >> 1
    select(bounds, ids, first, last, first + best_position, best_axis)
    return first + best_position


@jit
def split_morton(keys, first, last):
    """Where the highest bit that differs in a sorted range of codes turns; the middle when none does."""
    differing = keys[first] ^ keys[last - 1]
    if differing == np.uint64(0):
        return (first + last) >> 1
    bit = np.uint64(1)
    while differing > np.uint64(1):
        differing >>= np.uint64(1)
        bit <<= np.uint64(1)
    low, high = first, last - 1  # the bit is clear at low, set at high
    while high - low > 1:
        middle = (low + high) >> 1
        if keys[middle] & bit:
            high = middle
        else:
            low = middle
    return high


@jit
def split(bounds, ids, keys, method, first, last, pack_width, bin_boxes, bin_counts, right_costs):
    """Cut a range in two by ``method``; returns the first reference of the right part, strictly inside the range."""
    if method == MORTON:
        return split_morton(keys, first, last)
    if method == SWEEP and last - first <= SWEEP_LIMIT:
        return split_sweep(bounds, ids, first, last, pack_width, right_costs)
    return split_binned(bounds, ids, first, last, pack_width, bin_boxes, bin_counts, right_costs)


@jit
def spread_bits(value):
    """The low 21 bits of a uint64, two zeros between each."""
    value &= np.uint64(0x1FFFFF)
    value = (value | value << np.uint64(32)) & np.uint64(0x1F00000000FFFF)
    value = (value | value << np.uint64(16)) & np.uint64(0x1F0000FF0000FF)
    value = (value | value << np.uint64(8)) & np.uint64(0x100F00F00F00F00F)
    value = (value | value << np.uint64(4)) & np.uint64(0x10C30C30C30C30C3)
    return (value | value << np.uint64(2)) & np.uint64(0x1249249249249249)


@jit
def morton_codes(bounds, keys):
    """``keys`` (n,) uint64: 63-bit Morton codes of the centroids within their common box."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for reference in range(len(bounds)):
        for axis in range(3):
            value = centroid(bounds, reference, axis)
            low[axis], high[axis] = min(low[axis], value), max(high[axis], value)
    for reference in range(len(bounds)):
        code = np.uint64(0)
        for axis in range(3):
            extent = high[axis] - low[axis]
            place = (centroid(bounds, reference, axis) - low[axis]) / extent if extent > 0.0 else 0.0
            code |= spread_bits(np.uint64(min(place * 2097152.0, 2097151.0))) << np.uint64(axis)
        keys[reference] = code


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
def cut_exactly(bounds, ids, method, first, last, pack_width, parts):
    """Cut a range into up to eight parts of nearly equal numbers of whole packs, by medians; returns how many.

    References in Morton order are neighbours already and stay as they are.
    """
    packs = (last - first + pack_width - 1) // pack_width
    edges = np.empty(WIDTH + 1, np.int64)
    for k in range(WIDTH + 1):
        edges[k] = min(first + (k * (packs // WIDTH) + min(k, packs % WIDTH)) * pack_width, last)
    step = WIDTH
    while step > 1:
        for k in range(0, WIDTH, step):
            begin, middle, end = edges[k], edges[k + step // 2], edges[k + step]
            if begin < middle < end and method != MORTON:
                select(bounds, ids, begin, end, middle, largest_axis(bounds, begin, end))
        step //= 2
    number = 0
    for k in range(WIDTH):
        if edges[k + 1] > edges[k]:
            parts[number, 0], parts[number, 1] = edges[k], edges[k + 1]
            number += 1
    return number
