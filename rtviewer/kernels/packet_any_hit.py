"""Any-hit programs asked for the rays of a packet: those that only look at the hit, so that their order shows nowhere.

``trace.packets`` says which they are. Two candidates of the same t are the exception: their rays are traced again alone
(``packet_state.IN_DOUBT``).
"""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import packet_state as at
from rtviewer.kernels import state
from rtviewer.kernels.candidates import find_geometry, first_of_geometry
from rtviewer.kernels.constants import ANY_HIT_ALPHA_MASK, PRIMITIVE_BITS
from rtviewer.kernels.materials import is_checker_cell, is_masked_out, material_of
from rtviewer.kernels.memory import load_f64, load_i64
from rtviewer.kernels.programs import IGNORE_HIT, by_index
from rtviewer.kernels.vector import lowest_bit


def ask_group(packet, walk, identity, bits, nothing):
    """Those of eight rays whose hits with one triangle are accepted. A part (``parts``).

    ``identity``: of the triangle, from its pack; ``bits``: rays that hit it; what is known of their hits is at OFFERED.
    """
    blas, program = load_i64(walk + state.BLAS), load_i64(walk + state.ANY_HIT)
    number, geometries = identity & PRIMITIVE_BITS, load_i64(blas + state.BLAS_GEOMETRIES)
    geometry = np.int64(find_geometry(geometries, load_i64(blas + state.BLAS_GEOMETRY_COUNT), number))
    primitive = number - first_of_geometry(geometries, geometry)
    if program < ANY_HIT_ALPHA_MASK:
        return np.int64(0) if by_index(program, geometry, primitive) == IGNORE_HIT else bits
    material = material_of(geometry, walk)
    accepted, left = bits, np.uint32(bits)
    while left != 0:
        lane = lowest_bit(left)
        left &= left - np.uint32(1)
        offered = packet + at.OFFERED + 8 * lane
        determinant = load_f64(offered + 2 * at.VECTOR)
        b1, b2 = np.float32(load_f64(offered) / determinant), np.float32(load_f64(offered + at.VECTOR) / determinant)
        if program == ANY_HIT_ALPHA_MASK:
            is_out = is_masked_out(material, primitive, b1, b2)
        else:
            is_out = is_checker_cell(material, primitive, b1, b2)
        if is_out:
            accepted &= ~(np.int64(1) << lane)
    return accepted
