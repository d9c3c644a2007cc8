"""The built-in any-hit programs, and the shapes that intersection programs report (``dxr.programs``).

``trace.reference`` has the same formulas in numpy; each step is float32 or float64 as written.
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.constants import (
    ANY_HIT_ACCEPT_AND_END_SEARCH,
    ANY_HIT_IGNORE,
    ANY_HIT_IGNORE_ODD_GEOMETRIES,
    ANY_HIT_IGNORE_ODD_PRIMITIVES,
    ANY_HIT_IGNORE_ODD_PRIMITIVES_END_AT_EVEN,
)

IGNORE_HIT = 0
ACCEPT_HIT = 1
ACCEPT_HIT_AND_END_SEARCH = 2


@jit
def any_hit(program, geometry, primitive):
    """What an any-hit program does with a hit: ignore it, accept it, or accept it and end the search."""
    if program == ANY_HIT_IGNORE:
        return IGNORE_HIT
    if program == ANY_HIT_IGNORE_ODD_PRIMITIVES and primitive & 1:
        return IGNORE_HIT
    if program == ANY_HIT_ACCEPT_AND_END_SEARCH:
        return ACCEPT_HIT_AND_END_SEARCH
    if program == ANY_HIT_IGNORE_ODD_GEOMETRIES and geometry & 1:
        return IGNORE_HIT
    if program == ANY_HIT_IGNORE_ODD_PRIMITIVES_END_AT_EVEN:
        return IGNORE_HIT if primitive & 1 else ACCEPT_HIT_AND_END_SEARCH
    return ACCEPT_HIT


@jit
def sphere_roots(low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz):
    """(found, near, far): where the line meets the sphere in the box's centre, radius half the shortest side.

    Arguments float64 made from float32; all steps in float64; roots rounded once to float32.
    """
    cx = ox - 0.5 * (low_x + high_x)
    cy = oy - 0.5 * (low_y + high_y)
    cz = oz - 0.5 * (low_z + high_z)
    radius = 0.5 * min(high_x - low_x, min(high_y - low_y, high_z - low_z))
    a = (dx * dx + dy * dy) + dz * dz
    b = (dx * cx + dy * cy) + dz * cz
    c = ((cx * cx + cy * cy) + cz * cz) - radius * radius
    discriminant = b * b - a * c
    if not (a > 0.0 and discriminant >= 0.0):
        return False, np.float32(0.0), np.float32(0.0)
    root = np.sqrt(discriminant)
    return True, np.float32((-b - root) / a), np.float32((-b + root) / a)
