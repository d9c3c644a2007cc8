"""Positions in the small arrays that one walk works on. Arrays, because kernels hold no objects."""

from __future__ import annotations

import numpy as np

from rtviewer.kernels import jit

# A row of World.bottom, (8,) int64.
BLAS_NODE_ADDRESS = 0
BLAS_LEAF_ADDRESS = 1
BLAS_GEOMETRY_ADDRESS = 2
BLAS_GEOMETRY_COUNT = 3
BLAS_NODE_COUNT = 4
BLAS_IS_TRIANGLES = 5
BLAS_HAS_OPAQUE = 6
BLAS_HAS_NON_OPAQUE = 7
BLAS_ROW_SIZE = 8

# World.top, (4,) int64.
TOP_NODE_ADDRESS = 0
TOP_LEAF_ADDRESS = 1
TOP_DESC_ADDRESS = 2
TOP_NODE_COUNT = 3
TOP_ROW_SIZE = 4

# ``hit`` (8,) int64: the committed hit, -1 where there is none. ``hit_real`` (3,) float32: current end, attributes.
HIT_INSTANCE = 0
HIT_GEOMETRY = 1
HIT_PRIMITIVE = 2
HIT_KIND = 3
HIT_NUMBER = 4
"""Number of the primitive in its structure: geometry and primitive in one, ordered alike."""
HIT_IS_TRIANGLE = 5
HIT_WAS_OPAQUE = 6
ENDED = 7

# ``call`` (8,) int64 and ``call_real`` (3,) float32 (TMin, TMax, report t): what the ray is traced with.
RAY_FLAGS = 0
RAY_MASK = 1
ANY_HIT = 2
INTERSECTION = 3
OPACITY_OF_OPAQUE = 4
"""What ``culling.effective_opacity`` makes of opaque geometry in the instance being walked."""
OPACITY_OF_NON_OPAQUE = 5


@jit
def new_hit():
    return np.empty(8, np.int64), np.empty(3, np.float32)


@jit
def new_call():
    return np.zeros(8, np.int64), np.zeros(3, np.float32)
