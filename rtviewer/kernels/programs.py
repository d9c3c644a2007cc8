"""The built-in any-hit programs and the call of a user's, and the sphere that intersection programs report.

``trace.reference_programs`` has the same formulas in numpy; each step is float32 or float64 as written.
"""

from __future__ import annotations

import numpy as np

from rtviewer.dxr.programs import HitAction
from rtviewer.kernels import jit
from rtviewer.kernels.candidate_block import call_any_hit
from rtviewer.kernels.constants import (
    ANY_HIT_ACCEPT_AND_END_SEARCH,
    ANY_HIT_ALPHA_MASK,
    ANY_HIT_CHECKER,
    ANY_HIT_IGNORE,
    ANY_HIT_IGNORE_ODD_GEOMETRIES,
    ANY_HIT_IGNORE_ODD_PRIMITIVES,
    ANY_HIT_IGNORE_ODD_PRIMITIVES_END_AT_EVEN,
)
from rtviewer.kernels.extremes import least
from rtviewer.kernels.materials import is_checker_cell, is_masked_out, material_of
from rtviewer.kernels.memory import load_f32
from rtviewer.kernels.state import OBJECT_DIRECTION, OBJECT_ORIGIN

IGNORE_HIT = int(HitAction.IGNORE)
ACCEPT_HIT = int(HitAction.ACCEPT)
ACCEPT_HIT_AND_END_SEARCH = int(HitAction.ACCEPT_AND_END_SEARCH)


@jit
def any_hit(program, geometry, primitive, is_triangle, t, kind, attribute_0, attribute_1, walk):
    """What an any-hit program does with a hit: ignore it, accept it, or accept it and end the search."""
    if program < ANY_HIT_ALPHA_MASK:
        return by_index(program, geometry, primitive)
    return by_surface(program, geometry, primitive, is_triangle, t, kind, attribute_0, attribute_1, walk)


@jit
def by_index(program, geometry, primitive):
    """The programs that look at numbers only."""
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
def by_surface(program, geometry, primitive, is_triangle, t, kind, attribute_0, attribute_1, walk):
    """The programs that look at the place of the hit, and a user's."""
    if program == ANY_HIT_ALPHA_MASK:
        if is_triangle and is_masked_out(material_of(geometry, walk), primitive, attribute_0, attribute_1):
            return IGNORE_HIT
        return ACCEPT_HIT
    if program == ANY_HIT_CHECKER:
        if is_triangle:
            out = is_checker_cell(material_of(geometry, walk), primitive, attribute_0, attribute_1)
        else:
            out = is_checker_cube(t, walk)
        return IGNORE_HIT if out else ACCEPT_HIT
    return call_any_hit(program, geometry, primitive, t, kind, attribute_0, attribute_1, walk)


@jit
def is_checker_cube(t, walk):
    """Whether a procedural's hit lies in a cube that CHECKER cuts out: edge 1/4 in object space."""
    total = 0.0
    for axis in range(0, 12, 4):
        origin = np.float64(load_f32(walk + OBJECT_ORIGIN + axis))
        direction = np.float64(load_f32(walk + OBJECT_DIRECTION + axis))
        total = total + np.floor(4.0 * (origin + np.float64(t) * direction))
    half = 0.5 * total
    return half != np.floor(half)


@jit
def sphere_roots(low_x, low_y, low_z, high_x, high_y, high_z, ox, oy, oz, dx, dy, dz):
    """(found, near, far): where the line meets the sphere in the box's centre, radius half the shortest side.

    Arguments float64 made from float32; all steps in float64; roots rounded once to float32.
    """
    cx = ox - 0.5 * (low_x + high_x)
    cy = oy - 0.5 * (low_y + high_y)
    cz = oz - 0.5 * (low_z + high_z)
    radius = 0.5 * least(high_x - low_x, least(high_y - low_y, high_z - low_z))
    a = (dx * dx + dy * dy) + dz * dz
    b = (dx * cx + dy * cy) + dz * cz
    c = ((cx * cx + cy * cy) + cz * cz) - radius * radius
    discriminant = b * b - a * c
    if not (a > 0.0 and discriminant >= 0.0):
        return False, np.float32(0.0), np.float32(0.0)
    root = np.sqrt(discriminant)
    return True, np.float32((-b - root) / a), np.float32((-b + root) / a)
