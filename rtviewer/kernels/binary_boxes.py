"""Boxes as vectors of eight: the negated minimum, one spare, the maximum, one spare. A union is then one maximum.

Areas are half surfaces in float32: they only choose between trees, so rounding, overflow to infinity and NaN (which no
comparison prefers) are harmless. Each step is one intrinsic (see ``emit``) with a portable twin.
"""

from __future__ import annotations

import ctypes

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit

BOX = 32
"""Bytes of a box."""

_FLOAT4_LANES = ir.VectorType(emit.INT32, 4)


def _area(builder, box):
    """x*y + y*z + z*x of the edges."""
    low = builder.shuffle_vector(box, box, ir.Constant(_FLOAT4_LANES, [0, 1, 2, 3]))
    high = builder.shuffle_vector(box, box, ir.Constant(_FLOAT4_LANES, [4, 5, 6, 7]))
    edges = builder.fadd(low, high)
    turned = builder.shuffle_vector(edges, edges, ir.Constant(_FLOAT4_LANES, [1, 2, 0, 3]))
    products = builder.fmul(edges, turned)
    x, y, z = (builder.extract_element(products, ir.Constant(emit.INT32, k)) for k in range(3))
    return builder.fadd(builder.fadd(x, y), z)


@intrinsic
def _area_intrinsic(typing_context, box):
    def generate(context, builder, signature, arguments):
        return _area(builder, emit.load_at(builder, arguments[0], emit.FLOAT8))

    return types.float32(types.int64), generate


@intrinsic
def _union_area_intrinsic(typing_context, a, b):
    def generate(context, builder, signature, arguments):
        return _area(builder, emit.larger(builder, *(emit.load_at(builder, x, emit.FLOAT8) for x in arguments)))

    return types.float32(types.int64, types.int64), generate


@intrinsic
def _unite_intrinsic(typing_context, a, b, out):
    def generate(context, builder, signature, arguments):
        a, b, out = arguments
        emit.store(builder, emit.larger(builder, *(emit.load_at(builder, x, emit.FLOAT8) for x in (a, b))), out, 0)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _box(address):
    return np.ctypeslib.as_array(ctypes.cast(int(address), ctypes.POINTER(ctypes.c_float)), (8,))


def _area_of(box):
    with np.errstate(all="ignore"):
        x, y, z = box[:3] + box[4:7]
        return np.float32(np.float32(x * y + y * z) + z * x)


if numba.config.DISABLE_JIT:

    def area(box):
        return _area_of(_box(box))

    def union_area(a, b):
        return _area_of(np.fmax(_box(a), _box(b)))

    def unite(a, b, out):
        _box(out)[:] = np.fmax(_box(a), _box(b))
else:
    area = _area_intrinsic
    """area(box): half the surface of the box at an address."""
    union_area = _union_area_intrinsic
    """union_area(a, b): half the surface of the union."""
    unite = _unite_intrinsic
    """unite(a, b, out): write the union, which may be in the place of one of them."""
