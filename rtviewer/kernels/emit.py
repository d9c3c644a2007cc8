"""Pieces of LLVM vector code that the intrinsics of kernels are put together from.

An intrinsic emits all the vector instructions of one inner step at once: LLVM does not vectorise lane loops by itself,
and many small intrinsics cost compile time. Only generic vector types are used here, so every processor gets code.
"""

from __future__ import annotations

from llvmlite import ir

FLOAT, INT32, INT64, BOOL = ir.FloatType(), ir.IntType(32), ir.IntType(64), ir.IntType(1)
FLOAT8, FLOAT4 = ir.VectorType(FLOAT, 8), ir.VectorType(FLOAT, 4)


def load(builder, address, offset, kind):
    """A value of ``kind`` at a constant offset from an address."""
    return load_at(builder, builder.add(address, ir.Constant(INT64, offset)) if offset else address, kind)


def load_at(builder, address, kind):
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=4)


def store(builder, value, address, offset):
    at = builder.add(address, ir.Constant(INT64, offset)) if offset else address
    builder.store(value, builder.inttoptr(at, value.type.as_pointer()), align=4)


def constant(kind, value):
    """A vector with the same constant in every lane."""
    return ir.Constant(kind, [value] * kind.count)


def splat(builder, value, kind):
    """A vector with the same value in every lane."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(INT32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(INT32, kind.count), [0] * kind.count))


def larger(builder, a, b):
    """a > b ? a : b, lane by lane: a NaN in a gives b."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def smaller(builder, a, b):
    """a < b ? a : b, lane by lane: a NaN in a gives b."""
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def mask(builder, condition):
    """A vector of conditions as bits of a uint32, lane 0 lowest."""
    return builder.zext(builder.bitcast(condition, ir.IntType(condition.type.count)), INT32)
