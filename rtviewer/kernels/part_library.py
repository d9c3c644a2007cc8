"""The parts of ``parts`` for walks that count nothing and for those that do, each compiled when first asked for."""

from __future__ import annotations

import ctypes
from functools import cache

import numba
import numpy as np

from rtviewer.kernels.candidates import offer
from rtviewer.kernels.compilation import address_kernel
from rtviewer.kernels.memory import load_i64
from rtviewer.kernels.parts import OFFER, WALK_LEVEL
from rtviewer.kernels.procedurals import test_box_leaf
from rtviewer.kernels.state import BLAS_GEOMETRIES, BLAS_GEOMETRY_COUNT, BLAS_LEAVES
from rtviewer.kernels.traverse import walk_leaves

PLAIN, COUNTING = range(2)
"""COUNTING: walks that count, and log where the log's address is not 0."""


def plain_boxes(blas, walk, first, last, are_spheres):
    """The procedural boxes of a leaf."""
    test_box_leaf(
        load_i64(blas + BLAS_LEAVES), first, last, load_i64(blas + BLAS_GEOMETRIES),
        load_i64(blas + BLAS_GEOMETRY_COUNT), walk, np.int64(0), are_spheres != 0, None, None,
    )  # fmt: skip
    return 0


def counting_leaves(blas, walk, base, counters, log):
    walk_leaves(blas, walk, base, counters, log)
    return 0


def plain_offer(is_triangle, t, kind, a, b, opacity, number, geometries, geometry_count, walk, counters):
    return offer(is_triangle != 0, t, kind, a, b, opacity, number, geometries, geometry_count, walk, None)


def counting_offer(is_triangle, t, kind, a, b, opacity, number, geometries, geometry_count, walk, counters):
    return offer(is_triangle != 0, t, kind, a, b, opacity, number, geometries, geometry_count, walk, counters)


OFFERS = {PLAIN: plain_offer, COUNTING: counting_offer}


@cache
def _compiled(function):
    """A function as machine code that can be called by address; kept for good."""
    signature = OFFER if function in OFFERS.values() else WALK_LEVEL
    if numba.config.DISABLE_JIT:
        kinds = {numba.types.int64: ctypes.c_int64, numba.types.float32: ctypes.c_float}
        return ctypes.CFUNCTYPE(kinds[signature.return_type], *(kinds[kind] for kind in signature.args))(function)
    return address_kernel(function, signature)


def address_of(function) -> int:
    """Compile, or load from the cache, a part of this module; its address."""
    compiled = _compiled(function)
    if numba.config.DISABLE_JIT:
        return ctypes.cast(compiled, ctypes.c_void_p).value or 0
    return compiled.address
