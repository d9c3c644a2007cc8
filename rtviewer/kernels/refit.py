"""New boxes for an old tree."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit
from rtviewer.kernels.constants import PRIMITIVE_BITS, UNUSED_LANE
from rtviewer.kernels.exact_cost import WIDTH


@jit
def element_bounds(identities, bounds, out):
    """``out`` (n, 6) float32: union of the boxes ``bounds`` (m, 6) of the primitives in each leaf element.

    ``identities`` (n, lanes) int32: pack ids, or instance indices with one lane.
    """
    for element in range(len(identities)):
        for axis in range(3):
            out[element, axis] = np.float32(np.inf)
            out[element, axis + 3] = np.float32(-np.inf)
        for lane in range(identities.shape[1]):
            if identities[element, lane] == UNUSED_LANE:
                continue
            number = identities[element, lane] & PRIMITIVE_BITS
            for axis in range(3):
                out[element, axis] = min(out[element, axis], bounds[number, axis])
                out[element, axis + 3] = max(out[element, axis + 3], bounds[number, axis + 3])


@jit
def refit_nodes(nodes, children, elements):
    """Recompute every lane's box from below, in one backward sweep: children have larger indices than their parents.

    ``nodes`` (n, 64) float32 and ``children``, the same memory as int32; ``elements`` (m, 6) float32 boxes of leaf
    elements.
    """
    for node in range(len(nodes) - 1, -1, -1):
        for lane in range(WIDTH):
            ref = children[node, 48 + lane]
            if ref == 0:
                continue
            for axis in range(3):
                low, high = np.float32(np.inf), np.float32(-np.inf)
                if ref > 0:
                    for k in range(WIDTH):
                        low = min(low, nodes[ref, 16 * axis + k])
                        high = max(high, nodes[ref, 16 * axis + 8 + k])
                else:
                    for element in range(~ref >> 2, (~ref >> 2) + (~ref & 3) + 1):
                        low = min(low, elements[element, axis])
                        high = max(high, elements[element, axis + 3])
                nodes[node, 16 * axis + lane] = low
                nodes[node, 16 * axis + 8 + lane] = high
