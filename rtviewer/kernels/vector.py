"""The two inner tests as vector code: eight boxes of a node, four triangles of a pack.

Each is one intrinsic (see ``emit``). Every lane does the same float32 operations in the same order as
``boxes_portable`` and ``triangles_portable``, which run where the JIT is off and which tests compare bit for bit.
"""

from __future__ import annotations

import ctypes

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit
from rtviewer.kernels.ray_box import WIDEN


@intrinsic
def _boxes_intrinsic(typing_context, node, slab, t_min, end, out):
    def generate(context, builder, signature, arguments):
        node, slab, t_min, end, out = arguments
        entry = leave = occupied = None
        for axis in range(3):
            low = emit.load(builder, node, 64 * axis, emit.FLOAT8)
            high = emit.load(builder, node, 64 * axis + 32, emit.FLOAT8)
            if axis == 0:
                occupied = builder.fcmp_ordered("<=", low, high)
            origin_low, origin_high, reciprocal, sign = (
                emit.load(builder, slab, 16 * axis + 4 * k, emit.FLOAT) for k in range(4)
            )
            scale = emit.splat(builder, reciprocal, emit.FLOAT8)
            to_low = builder.fmul(builder.fsub(low, emit.splat(builder, origin_low, emit.FLOAT8)), scale)
            to_high = builder.fmul(builder.fsub(high, emit.splat(builder, origin_high, emit.FLOAT8)), scale)
            turned = builder.fcmp_ordered("!=", sign, ir.Constant(emit.FLOAT, 0.0))
            near = builder.select(turned, to_high, to_low)
            far = builder.select(turned, to_low, to_high)
            entry = near if entry is None else emit.larger(builder, near, entry)
            leave = far if leave is None else emit.smaller(builder, far, leave)
        entry = emit.larger(builder, emit.splat(builder, t_min, emit.FLOAT8), entry)
        builder.store(entry, builder.inttoptr(out, emit.FLOAT8.as_pointer()), align=4)
        after = builder.add(out, ir.Constant(ir.IntType(64), 32))
        builder.store(leave, builder.inttoptr(after, emit.FLOAT8.as_pointer()), align=4)
        widened = builder.fmul(leave, ir.Constant(emit.FLOAT8, [float(WIDEN)] * 8))
        missed = builder.fcmp_ordered(">", entry, widened)
        beyond = builder.fcmp_ordered(">", entry, emit.splat(builder, end, emit.FLOAT8))
        met = builder.and_(occupied, builder.not_(builder.or_(missed, beyond)))
        return builder.or_(
            emit.mask(builder, met), builder.shl(emit.mask(builder, occupied), ir.Constant(emit.INT32, 8))
        )

    return types.uint32(types.int64, types.int64, types.float32, types.float32, types.int64), generate


@intrinsic
def _triangles_intrinsic(typing_context, pack, kx, ky, kz, shear):
    def generate(context, builder, signature, arguments):
        pack, kx, ky, kz, shear = arguments
        origin_x, origin_y, origin_z, shear_x, shear_y = (
            emit.splat(builder, emit.load(builder, shear, 4 * k, emit.FLOAT), emit.FLOAT4) for k in range(5)
        )
        scale = emit.splat(builder, emit.load(builder, shear, 24, emit.FLOAT), emit.FLOAT4)
        x, y = [], []
        for corner in range(3):
            at = builder.add(pack, ir.Constant(ir.IntType(64), 48 * corner))

            def relative(offset, origin, at=at):
                value = emit.load_at(builder, builder.add(at, offset), emit.FLOAT4)
                return builder.fsub(builder.fmul(value, scale), origin)

            along = relative(kz, origin_z)
            x.append(builder.fsub(relative(kx, origin_x), builder.fmul(shear_x, along)))
            y.append(builder.fsub(relative(ky, origin_y), builder.fmul(shear_y, along)))

        def edge(p, q):
            return builder.fsub(builder.fmul(x[p], y[q]), builder.fmul(y[p], x[q]))

        zero = ir.Constant(emit.FLOAT4, [0.0] * 4)
        negative = positive = None
        for value in (edge(2, 1), edge(0, 2), edge(1, 0)):
            below, above = builder.fcmp_ordered("<", value, zero), builder.fcmp_ordered(">", value, zero)
            negative = below if negative is None else builder.or_(negative, below)
            positive = above if positive is None else builder.or_(positive, above)
        identity = emit.load(builder, pack, 144, ir.VectorType(emit.INT32, 4))
        used = builder.icmp_signed("!=", identity, ir.Constant(ir.VectorType(emit.INT32, 4), [-1] * 4))
        has_area = builder.icmp_signed(">=", identity, ir.Constant(ir.VectorType(emit.INT32, 4), [0] * 4))
        possible = builder.and_(has_area, builder.not_(builder.and_(negative, positive)))
        return builder.or_(
            emit.mask(builder, possible), builder.shl(emit.mask(builder, used), ir.Constant(emit.INT32, 4))
        )

    return types.uint32(types.int64, types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def _lowest_bit_intrinsic(typing_context, mask):
    def generate(context, builder, signature, arguments):
        return builder.zext(builder.cttz(arguments[0], ir.Constant(emit.BOOL, 1)), ir.IntType(64))

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
