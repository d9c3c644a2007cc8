"""References of a build: boxes of primitives with their ids, permuted in place, and the measures that cuts are chosen
by.

``bounds`` (n, 6) float32 minimum and maximum, ``ids`` (n,) int32. Areas and centroids are float64, so that coordinates
near the end of float32 neither overflow nor turn into NaN.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit

LARGEST = 3.0e38
"""Infinite bounds count as this when cuts are chosen; nodes keep them infinite (INA-8)."""


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
