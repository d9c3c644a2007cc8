"""Box tests: a conservative one for nodes, and the exact one that makes a procedural box a candidate.

Nodes (TRI-7). The triangle test shears in float32, so a ray may be granted a triangle although its exact line passes
the triangle's box by a rounding error. The node test must not be stricter: planes are moved outward by ``margin``, an
upper bound of that error, which costs nothing because it goes into the origin; slab distances get a relative allowance
for their three roundings. An axis with direction 0 tests the closed interval: with reciprocal +inf the two distances
become -inf and +inf inside and are of one sign outside. An axis whose direction is so small that the reciprocal
overflows says nothing, which is conservative.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit

MARGIN = np.float32(2.0**-20)
"""Sixteen unit roundoffs: the shear makes at most seven, relative to the largest coordinate."""
WIDEN = np.float32(1.0 + 2.0**-20)
"""Three roundings of a slab distance are 2^-22 relative; exit and the current end get four times that. Twice the two
errors fit, and the rounding of the wider reciprocal."""
TINY = np.float32(1e-37)
LARGEST = np.float32(3.4028234663852886e38)
INFINITY = np.float32(np.inf)


@jit
def box_interval(low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz):
    """Exact closed slab test in float64: (entry, exit, entry axis, exit axis), entry above exit when the line misses.

    All arguments are float64 made from float32. An axis with direction 0 only asks whether the origin is between the
    planes (TRI-7); with three such axes the interval is all of the line, so an origin inside counts (RAY-5). An axis is
    the first that set its end, 0 when none did.
    """
    entry, leave = -np.inf, np.inf
    entry_axis, exit_axis = 0, 0
    for axis in range(3):
        if axis == 0:
            low, high, origin, direction = low_x, high_x, ox, dx
        elif axis == 1:
            low, high, origin, direction = low_y, high_y, oy, dy
        else:
            low, high, origin, direction = low_z, high_z, oz, dz
        if direction == 0.0:
            if not (low <= origin <= high):
                return np.inf, -np.inf, 0, 0
            continue
        near = (low - origin) / direction
        far = (high - origin) / direction
        if direction < 0.0:
            near, far = far, near
        if near > entry:
            entry, entry_axis = near, axis
        if far < leave:
            leave, exit_axis = far, axis
    return entry, leave, entry_axis, exit_axis
