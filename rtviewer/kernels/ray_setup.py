"""What a ray is turned into before it is walked: a slab for box tests, a shear for triangle tests.

As intrinsics (``emit``) on the bits of floats, because rays differ in the signs and the order of their components: a
branch on them is mispredicted as often as not, which costs as much as a node. Every value is stored by itself, as it
will be loaded: loads of another width would wait for the stores.
"""

from __future__ import annotations

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rtviewer.kernels import emit, inline_jit, jit
from rtviewer.kernels.extremes import largest
from rtviewer.kernels.memory import load_f32, store_f32, store_i32
from rtviewer.kernels.ray_box import INFINITY, LARGEST, MARGIN, TINY, WIDEN
from rtviewer.kernels.state import (
    DIRECTION,
    OBJECT_DIRECTION,
    OBJECT_ORIGIN,
    ORIGIN,
    SHEAR_SCALE,
    SLAB_FAR,
    SLAB_FAR_RECIPROCAL,
    SLAB_PLANES,
    SLAB_RECIPROCAL,
)
from rtviewer.kernels.vector_portable import HUGE

HUGE_BITS = int(HUGE.view(np.uint32))

SIGN, REST = 0x80000000, 0x7FFFFFFF
NORMAL = 0x00800000
"""Bits of the least normal float32; the reciprocal of what is not below it is finite."""
FAR = 0x7E000000
"""Bits of 2^125: below it, no plane of a slab overflows."""


def _bits(builder, ray):
    """(origin, direction): the bits of three float32 each, loaded one by one, as they were stored."""
    return ([emit.load(builder, ray, offset + 4 * axis, emit.INT32) for axis in range(3)] for offset in (0, 12))


def _size(builder, bits):
    """Bits of the absolute value, which order as the values do."""
    return builder.and_(bits, ir.Constant(emit.INT32, REST))


def _best(builder, relation, values):
    best = values[0]
    for value in values[1:]:
        best = builder.select(builder.icmp_signed(relation, value, best), value, best)
    return best


def _float(builder, bits):
    return builder.bitcast(bits, emit.FLOAT)


@intrinsic
def _is_usual_intrinsic(typing_context, ray, reach):
    def generate(context, builder, signature, arguments):
        ray, reach = arguments
        origins, directions = _bits(builder, ray)
        least = _best(builder, "<", [_size(builder, bits) for bits in directions])
        most = _best(
            builder, ">", [_size(builder, bits) for bits in (*origins, *directions, builder.bitcast(reach, emit.INT32))]
        )
        is_normal = builder.icmp_signed(">=", least, ir.Constant(emit.INT32, NORMAL))
        return builder.and_(is_normal, builder.icmp_signed("<", most, ir.Constant(emit.INT32, FAR)))

    return types.boolean(types.int64, types.float32), generate


@intrinsic
def _set_usual_slab_intrinsic(typing_context, slab, ray, reach):
    def generate(context, builder, signature, arguments):
        slab, ray, reach = arguments
        origins, directions = _bits(builder, ray)
        largest = _float(builder, _best(builder, ">", [_size(builder, bits) for bits in origins]))
        margin = builder.fmul(builder.fadd(reach, largest), ir.Constant(emit.FLOAT, float(MARGIN)))
        margin = builder.bitcast(emit.larger(builder, margin, ir.Constant(emit.FLOAT, float(TINY))), emit.INT32)
        for axis in range(3):
            sign = builder.and_(directions[axis], ir.Constant(emit.INT32, SIGN))
            outward = _float(builder, builder.or_(margin, sign))
            origin, direction = _float(builder, origins[axis]), _float(builder, directions[axis])
            turn = builder.lshr(sign, ir.Constant(emit.INT32, 26))  # 32 or 0
            at = 4 * axis
            reciprocal = builder.fdiv(ir.Constant(emit.FLOAT, 1.0), direction)
            widened = builder.fmul(reciprocal, ir.Constant(emit.FLOAT, float(WIDEN)))
            emit.store(builder, builder.fadd(origin, outward), slab, at)
            emit.store(builder, builder.fsub(origin, outward), slab, SLAB_FAR + at)
            emit.store(builder, reciprocal, slab, SLAB_RECIPROCAL + at)
            emit.store(builder, widened, slab, SLAB_FAR_RECIPROCAL + at)
            emit.store(builder, builder.or_(turn, ir.Constant(emit.INT32, 64 * axis)), slab, SLAB_PLANES + at)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32), generate


@jit
def set_any_slab(slab, ray, reach, usual):
    """``set_slab`` whatever the direction."""
    ox, oy, oz = load_f32(ray), load_f32(ray + 4), load_f32(ray + 8)
    margin = largest((reach + largest(abs(ox), largest(abs(oy), abs(oz)))) * MARGIN, TINY)
    for axis in range(3):
        origin, direction = load_f32(ray + 4 * axis), load_f32(ray + 12 + 4 * axis)
        low, high, reciprocal, turned = origin + margin, origin - margin, INFINITY, direction < np.float32(0.0)
        if direction != np.float32(0.0):
            reciprocal = np.float32(1.0) / direction
        if (abs(reciprocal) == INFINITY and direction != np.float32(0.0)) or low == INFINITY or high == -INFINITY:
            # Says nothing: all planes but infinite ones are at -inf and +inf.
            low, high, reciprocal = LARGEST, -LARGEST, -INFINITY if turned else INFINITY
        at = slab + 4 * axis
        store_f32(at, high if turned else low)
        store_f32(at + SLAB_FAR, low if turned else high)
        store_f32(at + SLAB_RECIPROCAL, reciprocal)
        store_f32(at + SLAB_FAR_RECIPROCAL, reciprocal * WIDEN)
        store_i32(at + SLAB_PLANES, np.int32(64 * axis + 32 if turned else 64 * axis))


@inline_jit
def set_fast_slab(slab, ray, reach, usual):
    if usual:
        _set_usual_slab_intrinsic(slab, ray, reach)
    else:
        set_any_slab(slab, ray, reach, usual)


@intrinsic
def _set_shear_intrinsic(typing_context, shear, ray, reach):
    def generate(context, builder, signature, arguments):
        shear, ray, reach = arguments
        origins, directions = _bits(builder, ray)
        x, y, z = (_size(builder, bits) for bits in directions)
        one, two, three = (ir.Constant(emit.INT64, 4 * axis) for axis in range(3))
        kz = builder.select(builder.icmp_signed(">", y, x), two, one)
        kz = builder.select(builder.icmp_signed(">", z, _best(builder, ">", [x, y])), three, kz)
        ky = builder.select(builder.icmp_signed("==", kz, one), three, builder.sub(kz, two))
        kx = builder.select(builder.icmp_signed("==", kz, three), one, builder.add(kz, two))
        largest = _best(builder, ">", [_size(builder, bits) for bits in (*origins, builder.bitcast(reach, emit.INT32))])
        is_huge = builder.icmp_signed(">=", largest, ir.Constant(emit.INT32, HUGE_BITS))
        unit, eighth = (ir.Constant(emit.FLOAT, value) for value in (1.0, 0.125))
        scale = builder.select(is_huge, eighth, unit)
        places = [builder.add(ray, axis) for axis in (kx, ky, kz)]
        for row, place in enumerate(places):
            emit.store(builder, builder.fmul(emit.load(builder, place, 0, emit.FLOAT), scale), shear, 4 * row)
        along = emit.load(builder, places[2], 12, emit.FLOAT)
        upper = (*(emit.load(builder, place, 12, emit.FLOAT) for place in places[:2]), unit)
        for row, value in enumerate(upper):
            emit.store(builder, builder.fdiv(value, along), shear, 12 + 4 * row)
        emit.store(builder, scale, shear, SHEAR_SCALE)
        return builder.lshr(kz, ir.Constant(emit.INT64, 2))

    return types.int64(types.int64, types.int64, types.float32), generate


@inline_jit
def to_object(matrix, walk):
    """INST-8 and INST-9: the ray in object space, in float32, each operation rounded; t keeps its meaning."""
    ox, oy, oz = load_f32(walk + ORIGIN), load_f32(walk + ORIGIN + 4), load_f32(walk + ORIGIN + 8)
    dx, dy, dz = load_f32(walk + DIRECTION), load_f32(walk + DIRECTION + 4), load_f32(walk + DIRECTION + 8)
    for axis in range(3):
        m0, m1 = load_f32(matrix + 16 * axis), load_f32(matrix + 16 * axis + 4)
        m2, m3 = load_f32(matrix + 16 * axis + 8), load_f32(matrix + 16 * axis + 12)
        store_f32(walk + OBJECT_ORIGIN + 4 * axis, ((m0 * ox + m1 * oy) + m2 * oz) + m3)
        store_f32(walk + OBJECT_DIRECTION + 4 * axis, (m0 * dx + m1 * dy) + m2 * dz)


@jit
def is_object_ray_finite(walk):
    for word in range(0, 24, 4):
        if not (abs(load_f32(walk + OBJECT_ORIGIN + word)) < np.float32(np.inf)):
            return False
    return True


@intrinsic
def _octant_intrinsic(typing_context, ray):
    def generate(context, builder, signature, arguments):
        _, directions = _bits(builder, arguments[0])
        octant = ir.Constant(emit.INT32, 7)
        for axis, bits in enumerate(directions):
            sign = builder.lshr(bits, ir.Constant(emit.INT32, 31))
            octant = builder.xor(octant, builder.shl(sign, ir.Constant(emit.INT32, axis)))
        return builder.zext(octant, emit.INT64)

    return types.int64(types.int64), generate


if numba.config.DISABLE_JIT:
    from rtviewer.kernels.vector_portable import is_usual, octant_of, set_shear

    set_slab = set_any_slab
else:
    is_usual = _is_usual_intrinsic
    """is_usual(ray, reach): whether all numbers are finite and far from overflow, and no direction component is zero or
    subnormal. ``ray`` address of origin and direction, six float32; ``reach`` float32: largest coordinate of what is
    walked."""
    set_slab = set_fast_slab
    """set_slab(slab, ray, reach, usual): fill the slab (``state``) at an address, for the test of ``ray_box``.
    ``usual``: what ``is_usual`` says."""
    set_shear = _set_shear_intrinsic
    """set_shear(shear, ray, reach) -> kz: fill the shear at an address, for the test of ``ray_triangle``. kz is the
    axis of the largest direction component, the first on ties; kx, ky follow cyclically (step 1 of the method)."""
    octant_of = _octant_intrinsic
    """octant_of(ray) -> bits, bit k set where component k of the direction has no minus sign: the octant whose order
    of children is the ray's."""
