"""The parts of ``parts`` for walks that count nothing and for those that do, each compiled when first asked for."""

from __future__ import annotations

import ctypes
from functools import cache

import numba

from rtviewer.kernels.candidates import offer
from rtviewer.kernels.compilation import address_kernel
from rtviewer.kernels.parts import OFFER, WALK_LEVEL
from rtviewer.kernels.traverse import walk_leaves, walk_triangles

PLAIN, COUNTING = range(2)
"""COUNTING: walks that count, and log where the log's address is not 0."""


def plain_triangles(blas, walk, base, first, stacked):
    walk_triangles(blas, walk, base, first, stacked, None)
    return 0


def plain_indexed(blas, walk, base, first, stacked):
    walk_triangles(blas, walk, base, first, stacked, True)
    return 0


def plain_leaves(blas, walk, base, counters, log):
    walk_leaves(blas, walk, base, None, None)
    return 0


def counting_leaves(blas, walk, base, counters, log):
    walk_leaves(blas, walk, base, counters, log)
    return 0


def plain_offer(is_triangle, t, kind, a, b, opacity, number, geometries, geometry_count, walk, counters):
    return offer(is_triangle != 0, t, kind, a, b, opacity, number, geometries, geometry_count, walk, None)


def counting_offer(is_triangle, t, kind, a, b, opacity, number, geometries, geometry_count, walk, counters):
    return offer(is_triangle != 0, t, kind, a, b, opacity, number, geometries, geometry_count, walk, counters)


LEAVES = {PLAIN: plain_leaves, COUNTING: counting_leaves}
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
