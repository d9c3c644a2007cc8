"""Ways to cut a range of references in two, and the exact cut into eight.

Binned surface area heuristic (``binning``), or Morton order (``morton``) for PREFER_FAST_BUILD.

Everything is at addresses: ``references`` the array of references, ``keys`` sorted Morton keys (or 0), ``scratch`` room
for as many references as the range has, ``workspace`` WORKSPACE_BYTES. Ranges count references from ``references``.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.binning import BINS, BINS_BYTES, COST_BYTES, best_plane, fill_bins, move_rows, partition
from rtviewer.kernels.exact_cost import WIDTH, pack_count
from rtviewer.kernels.memory import load_f32, load_i64, store_i64
from rtviewer.kernels.morton import split_morton
from rtviewer.kernels.references import FRAME_BYTES, REFERENCE_BYTES, copy_row, measure

BINNED = 0
MORTON = 1

BINS_AT = 0
COSTS_AT = BINS_AT + BINS_BYTES
HALVES_AT = COSTS_AT + COST_BYTES * BINS
FRAMES_AT = HALVES_AT + 2 * FRAME_BYTES
PARTS_AT = FRAMES_AT + WIDTH * FRAME_BYTES
EDGES_AT = PARTS_AT + 24 * WIDTH
WORKSPACE_BYTES = EDGES_AT + 8 * (WIDTH + 1) + 56
"""Frames of a node's parts, and for each part three int64: first, end, and how much it deserves a cut."""


@jit
def bins_for(count):
    bins = 4 + count // 16
    return bins if bins < BINS else BINS


@jit
def split_binned(references, scratch, first, end, pack_shift, frame, workspace):
    """Cut a range at the cheapest plane; returns the first reference of the right part, strictly inside the range.

    The frames of both parts go to HALVES_AT of the workspace.
    """
    at, stop = references + REFERENCE_BYTES * first, references + REFERENCE_BYTES * end
    bins, halves = bins_for(end - first), workspace + HALVES_AT
    fill_bins(at, stop, frame, bins, workspace + BINS_AT)
    plane = best_plane(workspace + BINS_AT, bins, end - first, pack_shift, workspace + COSTS_AT, halves)
    if plane < 0:
        return split_in_the_middle(references, first, end, workspace)
    middle = partition(at, stop, frame, bins, plane >> 32, plane & 0xFFFFFFFF, at, scratch, halves)
    move_rows(scratch, scratch + (stop - middle), middle)
    return first + (middle - at) // REFERENCE_BYTES


@jit
def split_in_the_middle(references, first, end, workspace):
    """Halve a range whose centres coincide."""
    middle = (first + end) >> 1
    measure_halves(references, first, middle, end, workspace)
    return middle


@jit
def measure_halves(references, first, middle, end, workspace):
    place = references + REFERENCE_BYTES * middle
    measure(references + REFERENCE_BYTES * first, place, workspace + HALVES_AT)
    measure(place, references + REFERENCE_BYTES * end, workspace + HALVES_AT + FRAME_BYTES)


@jit
def centroid(references, reference, axis):
    """Twice the centre of a reference's box."""
    at = references + REFERENCE_BYTES * reference + 4 * axis
    return load_f32(at + 16) - load_f32(at)


@jit
def split(references, scratch, keys, method, first, end, pack_shift, frame, workspace):
    """Cut a range in two by ``method``; returns the first reference of the right part, strictly inside the range.

    ``frame`` bounds the range. Frames of the halves go to HALVES_AT, but for MORTON, where boxes are not known.
    """
    if method == MORTON:
        return split_morton(keys, first, end)
    return split_binned(references, scratch, first, end, pack_shift, frame, workspace)


@jit
def swap(references, a, b, spare):
    """Exchange two references; ``spare``: address of 32 bytes."""
    a, b = references + REFERENCE_BYTES * a, references + REFERENCE_BYTES * b
    copy_row(a, spare)
    copy_row(b, a)
    copy_row(spare, b)


@jit
def select(references, first, end, position, axis, spare):
    """Reorder a range so that centroids before ``position`` are not larger than those from it on (quickselect)."""
    while end - first > 1:
        a, b = centroid(references, first, axis), centroid(references, end - 1, axis)
        c = centroid(references, (first + end) >> 1, axis)
        low, high = (a, b) if a < b else (b, a)
        pivot = low if c < low else (high if c > high else c)
        below, at, above = first, first, end
        while at < above:
            value = centroid(references, at, axis)
            if value < pivot:
                swap(references, below, at, spare)
                below += 1
                at += 1
            elif value > pivot:
                above -= 1
                swap(references, at, above, spare)
            else:
                at += 1
        if position < below:
            end = below
        elif position >= above:
            first = above
        else:
            return


@jit
def largest_axis(references, first, end, spare):
    """The axis along which the centroids of a range spread most; ``spare``: address of a frame."""
    measure(references + REFERENCE_BYTES * first, references + REFERENCE_BYTES * end, spare)
    best, spread = np.int64(0), np.float32(-1.0)
    for axis in range(3):
        extent = load_f32(spare + 32 + 4 * axis) + load_f32(spare + 48 + 4 * axis)
        if extent > spread:
            best, spread = axis, extent
    return best


@jit
def cut_exactly(references, method, first, end, pack_shift, workspace):
    """Cut a range into up to eight parts of nearly equal numbers of whole packs, by medians; returns how many.

    References in Morton order are neighbours already and stay as they are. Ranges and frames of the parts go to the
    workspace.
    """
    packs, edges = pack_count(end - first, pack_shift), workspace + EDGES_AT
    for k in range(WIDTH + 1):
        rest = packs % WIDTH
        edge = first + ((k * (packs // WIDTH) + (k if k < rest else rest)) << pack_shift)
        store_i64(edges + 8 * k, edge if edge < end else end)
    step = WIDTH
    while step > 1:
        for k in range(0, WIDTH, step):
            begin, middle = load_i64(edges + 8 * k), load_i64(edges + 8 * k + 4 * step)
            stop = load_i64(edges + 8 * k + 8 * step)
            if begin < middle < stop and method != MORTON:
                axis = largest_axis(references, begin, stop, workspace + HALVES_AT)
                select(references, begin, stop, middle, axis, workspace + HALVES_AT)
        step //= 2
    number = 0
    for k in range(WIDTH):
        begin, stop = load_i64(edges + 8 * k), load_i64(edges + 8 * k + 8)
        if stop > begin:
            store_i64(workspace + PARTS_AT + 24 * number, begin)
            store_i64(workspace + PARTS_AT + 24 * number + 8, stop)
            if method != MORTON:
                frame = workspace + FRAMES_AT + FRAME_BYTES * number
                measure(references + REFERENCE_BYTES * begin, references + REFERENCE_BYTES * stop, frame)
            number += 1
    return number
