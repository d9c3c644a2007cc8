"""Bounds of primitives, and the leaf elements that hold them."""

from __future__ import annotations

from rtviewer.kernels import jit


@jit
def triangle_bounds(corners, ids, bounds):
    """``bounds`` (n, 6) float32 of the triangles ``ids`` (n,) int32 in ``corners`` (m, 3, 3) float32."""
    for row in range(len(ids)):
        triangle = ids[row]
        for axis in range(3):
            a, b, c = corners[triangle, 0, axis], corners[triangle, 1, axis], corners[triangle, 2, axis]
            bounds[row, axis] = min(a, min(b, c))
            bounds[row, axis + 3] = max(a, max(b, c))


@jit
def write_triangle_packs(packs, ids, corners, flags, vertices, identities):
    """Fill triangle packs from ranges ``packs`` (n, 2) int32 of ``ids``.

    ``flags`` (m,) int32: flag bits of each primitive's geometry. ``vertices`` (n, 3, 3, 4) float32 and ``identities``
    (n, 4) int32 are views on the structure; lanes beyond a range are zero and -1.
    """
    for pack in range(len(packs)):
        for lane in range(4):
            identities[pack, lane] = -1
        for reference in range(packs[pack, 0], packs[pack, 1]):
            lane = reference - packs[pack, 0]
            triangle = ids[reference]
            identities[pack, lane] = triangle | flags[triangle]
            for corner in range(3):
                for axis in range(3):
                    vertices[pack, corner, axis, lane] = corners[triangle, corner, axis]


@jit
def write_box_packs(packs, ids, boxes, flags, low, high, identities):
    """Fill box packs; ``boxes`` (m, 6) float32, ``low`` and ``high`` (n, 3, 4) float32, the rest as above."""
    for pack in range(len(packs)):
        for lane in range(4):
            identities[pack, lane] = -1
        for reference in range(packs[pack, 0], packs[pack, 1]):
            lane = reference - packs[pack, 0]
            box = ids[reference]
            identities[pack, lane] = box | flags[box]
            for axis in range(3):
                low[pack, axis, lane] = boxes[box, axis]
                high[pack, axis, lane] = boxes[box, axis + 3]


@jit
def write_pack_ids(packs, ids, flags, identities):
    """Fill packs that hold ids only."""
    for pack in range(len(packs)):
        for lane in range(4):
            identities[pack, lane] = -1
        for reference in range(packs[pack, 0], packs[pack, 1]):
            identities[pack, reference - packs[pack, 0]] = ids[reference] | flags[ids[reference]]
