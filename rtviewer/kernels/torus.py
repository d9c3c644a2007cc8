"""The ring inscribed in a box, and where a line meets it: up to four roots of a quartic, found without failing.

The axis is the box's shortest side (the first on ties); with A half the shorter of the other two, the tube's radius is
the smaller of half the shortest side and A / 4, and the ring's A less that. Everything is scaled so that A is 1 and the
parameter s starts where the line is nearest to the centre, so coefficients stay near 1 wherever the ray starts. Roots
of the second derivative, which are known in closed form, part the line so that the first derivative is monotone in each
part; its roots do the same for the quartic. Every root is then bisected, with basic operations only, so that numpy
(``trace.reference_torus``) gives the same bits. A line that only touches the ring meets it nowhere.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.extremes import largest, least
from rtviewer.kernels.memory import store_f32

BISECTIONS = 54
BOUND = 1.0001
"""Square of the radius of a sphere around the ring: the quartic is positive where the line leaves it."""


@jit
def quartic(c3, c2, c1, c0, s):
    return (((s + c3) * s + c2) * s + c1) * s + c0


@jit
def slope(c3, c2, c1, s):
    """The quartic's first derivative."""
    return ((4.0 * s + 3.0 * c3) * s + 2.0 * c2) * s + c1


@jit
def slope_root(c3, c2, c1, low, high):
    """The root of the slope in a part where it is monotone; the part's end where there is none."""
    is_negative = slope(c3, c2, c1, low) < 0.0
    if is_negative == (slope(c3, c2, c1, high) < 0.0):
        return high
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if (slope(c3, c2, c1, middle) < 0.0) == is_negative:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@jit
def quartic_root(c3, c2, c1, c0, low, high):
    """(found, s): the root of the quartic in a part where it is monotone."""
    is_negative = quartic(c3, c2, c1, c0, low) < 0.0
    if is_negative == (quartic(c3, c2, c1, c0, high) < 0.0):
        return False, 0.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if (quartic(c3, c2, c1, c0, middle) < 0.0) == is_negative:
            low = middle
        else:
            high = middle
    return True, 0.5 * (low + high)


@jit
def turned(x, y, z, axis):
    """A vector with the ring's axis last."""
    if axis == 0:
        return y, z, x
    if axis == 1:
        return z, x, y
    return x, y, z


@jit
def torus_roots(low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz, out):
    """How many roots; their t, ascending float32, are stored at ``out``. Arguments float64 made from float32."""
    side_x, side_y, side_z = high_x - low_x, high_y - low_y, high_z - low_z
    axis = 0
    shortest = side_x
    if side_y < shortest:
        axis, shortest = 1, side_y
    if side_z < shortest:
        axis, shortest = 2, side_z
    first, second, _ = turned(side_x, side_y, side_z, axis)
    outer = 0.5 * least(first, second)
    tube = least(0.5 * shortest, 0.25 * outer)
    square = (dx * dx + dy * dy) + dz * dz
    if not (tube > 0.0 and square > 0.0):
        return 0
    cx, cy, cz = ox - 0.5 * (low_x + high_x), oy - 0.5 * (low_y + high_y), oz - 0.5 * (low_z + high_z)
    nearest = -((dx * cx + dy * cy) + dz * cz) / square
    length = np.sqrt(square)
    qx, qy, qz = turned((cx + nearest * dx) / outer, (cy + nearest * dy) / outer, (cz + nearest * dz) / outer, axis)
    ux, uy, uz = turned(dx / length, dy / length, dz / length, axis)
    distance = (qx * qx + qy * qy) + qz * qz
    if not (distance < BOUND):
        return 0
    end = np.sqrt(BOUND - distance)
    small = tube / outer
    ring = 1.0 - small
    along = (qx * ux + qy * uy) + qz * uz
    k = (distance + ring * ring) - small * small
    four = 4.0 * (ring * ring)
    c3 = 4.0 * along
    c2 = (4.0 * (along * along) + 2.0 * k) - four * (ux * ux + uy * uy)
    c1 = 4.0 * (along * k) - 2.0 * (four * (qx * ux + qy * uy))
    c0 = k * k - four * (qx * qx + qy * qy)
    # Where the second derivative 12 s^2 + 6 c3 s + 2 c2 changes sign.
    inner = 36.0 * (c3 * c3) - 96.0 * c2
    bend_0, bend_1 = -end, -end
    if inner > 0.0:
        root = np.sqrt(inner)
        bend_0 = least(largest((-6.0 * c3 - root) / 24.0, -end), end)
        bend_1 = least(largest((-6.0 * c3 + root) / 24.0, -end), end)
    turn_0 = slope_root(c3, c2, c1, -end, bend_0)
    turn_1 = slope_root(c3, c2, c1, bend_0, bend_1)
    turn_2 = slope_root(c3, c2, c1, bend_1, end)
    scale = outer / length
    count = 0
    low = -end
    for part in range(4):
        high = turn_0 if part == 0 else turn_1 if part == 1 else turn_2 if part == 2 else end
        found, s = quartic_root(c3, c2, c1, c0, low, high)
        if found:
            store_f32(out + 4 * count, np.float32(nearest + s * scale))
            count += 1
        low = high
    return count
