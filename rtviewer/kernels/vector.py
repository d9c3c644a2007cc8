"""The two inner tests as vector code: eight boxes of a node, four triangles of a pack.

Each is one intrinsic that emits all its LLVM vector instructions at once; LLVM does not vectorise the lane loops by
itself, and many small intrinsics cost compile time. Only generic vector types are used, so every processor gets code,
and every lane does the same float32 operations in the same order as ``boxes_portable`` and ``triangles_portable``,
which run where the JIT is off and which tests compare bit for bit.
"""

from __future__ import annotations

import ctypes

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels.ray_box import WIDEN

FLOAT, INT32, BOOL = ir.FloatType(), ir.IntType(32), ir.IntType(1)
FLOAT8, FLOAT4 = ir.VectorType(FLOAT, 8), ir.VectorType(FLOAT, 4)


def _load(builder, address, offset, kind):
    at = builder.add(address, ir.Constant(ir.IntType(64), offset)) if offset else address
    return builder.load(builder.inttoptr(at, kind.as_pointer()), align=4)


def _load_at(builder, address, kind):
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=4)


def _splat(builder, value, kind):
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(INT32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(INT32, kind.count), [0] * kind.count))


def _larger(builder, a, b):
    """a > b ? a : b, lane by lane: a NaN in a gives b."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _smaller(builder, a, b):
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _mask(builder, condition, lanes):
    return builder.zext(builder.bitcast(condition, ir.IntType(lanes)), INT32)


@intrinsic
def _boxes_intrinsic(typing_context, node, slab, t_min, end, out):
    def generate(context, builder, signature, arguments):
        node, slab, t_min, end, out = arguments
        entry = leave = occupied = None
        for axis in range(3):
            low = _load(builder, node, 64 * axis, FLOAT8)
            high = _load(builder, node, 64 * axis + 32, FLOAT8)
            if axis == 0:
                occupied = builder.fcmp_ordered("<=", low, high)
            origin_low, origin_high, reciprocal, sign = (
                _load(builder, slab, 16 * axis + 4 * k, FLOAT) for k in range(4)
            )
            scale = _splat(builder, reciprocal, FLOAT8)
            to_low = builder.fmul(builder.fsub(low, _splat(builder, origin_low, FLOAT8)), scale)
            to_high = builder.fmul(builder.fsub(high, _splat(builder, origin_high, FLOAT8)), scale)
            turned = builder.fcmp_ordered("!=", sign, ir.Constant(FLOAT, 0.0))
            near = builder.select(turned, to_high, to_low)
            far = builder.select(turned, to_low, to_high)
            entry = near if entry is None else _larger(builder, near, entry)
            leave = far if leave is None else _smaller(builder, far, leave)
        entry = _larger(builder, _splat(builder, t_min, FLOAT8), entry)
        builder.store(entry, builder.inttoptr(out, FLOAT8.as_pointer()), align=4)
        after = builder.add(out, ir.Constant(ir.IntType(64), 32))
        builder.store(leave, builder.inttoptr(after, FLOAT8.as_pointer()), align=4)
        widened = builder.fmul(leave, ir.Constant(FLOAT8, [float(WIDEN)] * 8))
        missed = builder.fcmp_ordered(">", entry, widened)
        beyond = builder.fcmp_ordered(">", entry, _splat(builder, end, FLOAT8))
        met = builder.and_(occupied, builder.not_(builder.or_(missed, beyond)))
        return builder.or_(_mask(builder, met, 8), builder.shl(_mask(builder, occupied, 8), ir.Constant(INT32, 8)))

    return types.uint32(types.int64, types.int64, types.float32, types.float32, types.int64), generate


@intrinsic
def _triangles_intrinsic(typing_context, pack, kx, ky, kz, shear):
    def generate(context, builder, signature, arguments):
        pack, kx, ky, kz, shear = arguments
        origin_x, origin_y, origin_z, shear_x, shear_y = (
            _splat(builder, _load(builder, shear, 4 * k, FLOAT), FLOAT4) for k in range(5)
        )
        scale = _splat(builder, _load(builder, shear, 24, FLOAT), FLOAT4)
        x, y = [], []
        for corner in range(3):
            at = builder.add(pack, ir.Constant(ir.IntType(64), 48 * corner))

            def relative(offset, origin, at=at):
                value = _load_at(builder, builder.add(at, offset), FLOAT4)
                return builder.fsub(builder.fmul(value, scale), origin)

            along = relative(kz, origin_z)
            x.append(builder.fsub(relative(kx, origin_x), builder.fmul(shear_x, along)))
            y.append(builder.fsub(relative(ky, origin_y), builder.fmul(shear_y, along)))

        def edge(p, q):
            return builder.fsub(builder.fmul(x[p], y[q]), builder.fmul(y[p], x[q]))

        zero = ir.Constant(FLOAT4, [0.0] * 4)
        negative = positive = None
        for value in (edge(2, 1), edge(0, 2), edge(1, 0)):
            below, above = builder.fcmp_ordered("<", value, zero), builder.fcmp_ordered(">", value, zero)
            negative = below if negative is None else builder.or_(negative, below)
            positive = above if positive is None else builder.or_(positive, above)
        identity = _load(builder, pack, 144, ir.VectorType(INT32, 4))
        used = builder.icmp_signed("!=", identity, ir.Constant(ir.VectorType(INT32, 4), [-1] * 4))
        has_area = builder.icmp_signed(">=", identity, ir.Constant(ir.VectorType(INT32, 4), [0] * 4))
        possible = builder.and_(has_area, builder.not_(builder.and_(negative, positive)))
        return builder.or_(_mask(builder, possible, 4), builder.shl(_mask(builder, used, 4), ir.Constant(INT32, 4)))

    return types.uint32(types.int64, types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def _lowest_bit_intrinsic(typing_context, mask):
    def generate(context, builder, signature, arguments):
        return builder.zext(builder.cttz(arguments[0], ir.Constant(BOOL, 1)), ir.IntType(64))

    return types.int64(types.uint32), generate


def _floats(address, count):
    return np.ctypeslib.as_array(ctypes.cast(int(address), ctypes.POINTER(ctypes.c_float)), (count,))


def boxes_portable(node, slab, t_min, end, out):
    """As ``boxes``, in numpy."""
    planes, ray, result = _floats(node, 48).reshape(3, 2, 8), _floats(slab, 12).reshape(3, 4), _floats(out, 16)
    entry = leave = None
    with np.errstate(all="ignore"):
        for axis in range(3):
            to_low = (planes[axis, 0] - ray[axis, 0]) * ray[axis, 2]
            to_high = (planes[axis, 1] - ray[axis, 1]) * ray[axis, 2]
            near, far = (to_high, to_low) if ray[axis, 3] else (to_low, to_high)
            entry = near if entry is None else np.where(near > entry, near, entry)
            leave = far if leave is None else np.where(far < leave, far, leave)
        entry = np.where(np.float32(t_min) > entry, np.float32(t_min), entry)
        result[:8], result[8:] = entry, leave
        met = ~(entry > leave * WIDEN) & ~(entry > np.float32(end))
    occupied = planes[0, 0] <= planes[0, 1]
    bits = 1 << np.arange(8)
    return np.uint32(int(bits[met & occupied].sum()) | int(bits[occupied].sum()) << 8)


def triangles_portable(pack, kx, ky, kz, shear):
    """As ``triangles``, in numpy."""
    corners = _floats(pack, 36).reshape(3, 3, 4)
    identity = _floats(pack, 40)[36:].view(np.int32)
    ray = _floats(shear, 8)
    with np.errstate(all="ignore"):
        along = corners[:, kz // 16] * ray[6] - ray[2]
        x = (corners[:, kx // 16] * ray[6] - ray[0]) - ray[3] * along
        y = (corners[:, ky // 16] * ray[6] - ray[1]) - ray[4] * along
        edges = np.stack([x[p] * y[q] - y[p] * x[q] for p, q in ((2, 1), (0, 2), (1, 0))])
        mixed = (edges < 0).any(0) & (edges > 0).any(0)
    used = identity != -1
    bits = 1 << np.arange(4)
    return np.uint32(int(bits[(identity >= 0) & ~mixed].sum()) | int(bits[used].sum()) << 4)


if numba.config.DISABLE_JIT:
    boxes, triangles = boxes_portable, triangles_portable

    def lowest_bit(mask):
        return (int(mask) & -int(mask)).bit_length() - 1
else:
    boxes = _boxes_intrinsic
    """boxes(node, slab, t_min, end, out) -> mask. ``node`` address of a node, ``slab`` of a slab
    (``ray_box.set_slab``), ``t_min`` and widened ``end`` float32; ``out`` address of 16 float32 that receive eight
    entries and eight exits. Bits 0-7: children the ray meets inside the interval; bits 8-15: occupied lanes."""
    triangles = _triangles_intrinsic
    """triangles(pack, kx, ky, kz, shear) -> mask. Byte offsets of the axes in a corner; ``shear`` address of a shear
    (``ray_triangle.set_shear``). Bits 0-3: lanes with an area that float32 edge values do not
    reject; bits 4-7: used lanes."""
    lowest_bit = _lowest_bit_intrinsic
    """Index of the lowest set bit of a uint32 that is not 0."""
